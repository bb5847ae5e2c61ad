"""Ctrl-C, SIGTERM and SIGHUP: all end the work at once, with what was found so far."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType

_PATIENCE_S = 1.0
"""A second signal that soon after the first is the same wish, told twice (by make, by a shell)."""

_first: float | None = None


def install() -> None:
    """Make the three signals raise KeyboardInterrupt, once; a later repeat ends the process."""
    global _first
    _first = None
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup, and shells' background jobs
            signal.signal(number, _stop)


def finishing() -> None:
    """Let no first signal cut the closing of worlds short."""
    global _first
    _first = _first if _first is not None else time.monotonic()


def _stop(number: int, frame: FrameType | None) -> None:
    global _first
    now = time.monotonic()
    if _first is None:
        _first = now
        raise KeyboardInterrupt
    if now - _first > _PATIENCE_S:
        os._exit(128 + number)  # the worlds' watchers see us gone and clear up
