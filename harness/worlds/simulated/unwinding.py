"""How a rank's thread is ended from outside."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
from collections.abc import Iterator
from typing import Any


class Unwind(BaseException):
    """Ends a rank from outside: the case is decided."""


class Killed(BaseException):
    """Ends a rank as a signal or ``os._exit`` would."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status  # as waitpid tells


class Pursuit:
    """Ends one thread by Unwind, though its program swallow every exception.

    Whenever the program lets go of the exception, which is at the end of the clause that took it,
    it is raised again: outside of that clause. That is done below Python, as its destructor:
    code in Python would be the first to meet it.
    """

    def __init__(self, thread: int) -> None:
        self._thread = ctypes.c_ulong(thread)
        self._kind = type("Unwind", (Unwind,), {})
        again = functools.partial(_raise_in, self._thread, ctypes.py_object(self._kind))
        self._kind.__del__ = staticmethod(again)  # type: ignore[attr-defined]

    def exception(self) -> Unwind:
        """Return what the thread itself may raise."""
        unwind: Unwind = self._kind()
        return unwind

    def strike(self) -> None:
        """Raise it in the thread at its next Python instruction."""
        _raise_in(self._thread, ctypes.py_object(self._kind))

    def stop(self) -> None:
        """Let the thread alone: the program has ended."""
        if "__del__" in vars(self._kind):
            del self._kind.__del__  # type: ignore[attr-defined]
        _raise_in(self._thread, None)


_raise_in: Any = ctypes.pythonapi.PyThreadState_SetAsyncExc


@contextlib.contextmanager
def unraisable_unwinds() -> Iterator[None]:
    """Say nothing of those that come in a destructor, where they are lost."""
    usual = sys.unraisablehook

    def hook(what: Any) -> None:
        if not issubclass(what.exc_type, Unwind):
            usual(what)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = usual
