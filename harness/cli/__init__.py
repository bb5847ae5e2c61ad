"""The command ``harness``: a thin shell over :mod:`harness.api`.

Whatever goes wrong ends in one line on stderr and exit status 2, never in a traceback of ours.
Nothing here imports torch: help, ``explain`` and usage errors answer at once.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from harness.case import UsageError
from harness.cli import interrupts
from harness.cli.refused import Asked, asked_in
from harness.cli.stream import StdoutError, flush, tell

OK, FINDINGS, UNCHECKED = 0, 1, 2


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status: 0 no finding, 1 findings, 2 could not check."""
    interrupts.install()
    asked = asked_in(sys.argv[1:] if args is None else args)
    try:
        status = _guarded(functools.partial(_parse_and_run, args), asked)
    finally:
        interrupts.finishing()
        _close_worlds()
    return flush(status)


def _parse_and_run(args: Sequence[str] | None) -> int:
    from harness.cli.commands import parse

    job = parse(args)
    return job() if job is not None else OK


def _guarded(job: Callable[[], int], asked: Asked | None = None) -> int:
    try:
        return job()
    except KeyboardInterrupt:
        return _fail("interrupted before the first case ended", asked)
    except UsageError as error:
        return _fail(str(error), asked, getattr(error, "traceback", ""))
    except StdoutError as error:
        return _fail(f"the report cannot be written to standard output: {error}")
    except Exception as error:
        return _unexpected(error, asked)


def _unexpected(error: Exception, asked: Asked | None) -> int:
    from harness.worlds import WorldError

    if isinstance(error, WorldError):
        return _fail(str(error), asked)
    if isinstance(error, OSError) and error.strerror:  # a file that may not be read, a full disk
        where = f"{error.filename}: " if error.filename is not None else ""
        return _fail(f"{where}{error.strerror}", asked)
    if os.environ.get("HARNESS_DEBUG") == "1":
        traceback.print_exc()
    what = f"{type(error).__name__}: {error}"
    message = f"internal: {what}: please report this (HARNESS_DEBUG=1 shows where it arose)"
    return _fail(message, asked)


def _fail(message: str, asked: Asked | None = None, users_traceback: str = "") -> int:
    """Say on stderr why nothing could be checked, and in a machine's form where one was asked."""
    tell(message)
    if users_traceback:
        sys.stderr.write(users_traceback.rstrip("\n") + "\n")
    if asked is not None:
        with contextlib.suppress(StdoutError):
            asked.report_error(message)
    return UNCHECKED


def _close_worlds() -> None:
    session: Any = sys.modules.get("harness.session")
    if session is not None:
        _guarded(lambda: session.close_worlds() or OK)
