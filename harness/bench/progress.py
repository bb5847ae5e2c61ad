"""What a measured process tells about its cases: one line each, and why it cannot go on."""

from __future__ import annotations

import sys
import time
from typing import NoReturn

ENDED, FAILED = "@case ", "@failed "


def case_ended() -> None:
    """Say that a case has ended well, and when: the clock is the same for all processes."""
    sys.stdout.write(f"{ENDED}{time.monotonic():.6f}\n")
    sys.stdout.flush()


def fail(reason: str) -> NoReturn:
    """Say in one line why there is no figure, and end."""
    sys.stdout.write(f"{FAILED}{' '.join(reason.split())}\n")
    sys.stdout.flush()
    raise SystemExit(1)


def ends_in(output: str) -> list[float]:
    """Read when each case ended."""
    return [float(line[len(ENDED) :]) for line in output.splitlines() if line.startswith(ENDED)]


def failure_in(output: str) -> str | None:
    """Read why there is no figure, if it was told."""
    told = [line[len(FAILED) :] for line in output.splitlines() if line.startswith(FAILED)]
    return told[0] if told else None
