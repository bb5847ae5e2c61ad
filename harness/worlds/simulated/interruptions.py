"""Signals that come in the middle of a simulated run: their handlers wait until nothing is halfway.

A handler may raise anywhere: Ctrl-C's does, and that of a test's deadline. What a run has changed
in the process must be undone all the same.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

_TAKEN = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2
)  # fmt: skip


class Interruptions:
    """Calls the handlers only inside of :meth:`allowed`, and for the rest at the :meth:`end`."""

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._late: list[int] = []
        self._open = False
        if threading.current_thread() is not threading.main_thread():
            return  # no handler is ever called here
        for number in _TAKEN:
            handler = signal.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
                signal.signal(number, self._take)

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self._open:
            self._handlers[number](number, frame)
        else:
            self._late.append(number)

    @contextlib.contextmanager
    def allowed(self) -> Iterator[None]:
        """Call them here, those of the signals first that have come already."""
        try:
            self._open = True
            self._call_late()
            yield
        finally:
            self._open = False

    def end(self) -> None:
        """Put the handlers back, and call them for what has come."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._call_late()

    def _call_late(self) -> None:
        while self._late:
            number = self._late.pop(0)
            self._handlers[number](number, None)
