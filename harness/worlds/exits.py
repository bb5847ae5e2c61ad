"""Exit statuses in words."""

from __future__ import annotations

import signal


def describe_exit(status: int | None) -> str:
    """Return how a process ended, from its status as ``waitpid`` gives it (negative: a signal)."""
    if status is None:
        return "has gone"
    if status >= 0:
        return f"left with status {status} and without a word"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
