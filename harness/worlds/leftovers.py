"""What a program may leave changed in its process, undone before the next one runs there."""

from __future__ import annotations

import contextlib
import faulthandler
import signal
import warnings
from typing import Any, TextIO

import torch

_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_STACKS = signal.SIGUSR1


class Leftovers:
    """Remembers how a rank was before its first program.

    Not undone, because nobody can tell what is whose: modules that a program imported or patched,
    handlers of ``logging``, ``atexit`` and ``sys`` hooks, locale, umask, resource limits,
    registered backends, hooks and dispatch modes of torch, open files. What must not share a
    process with such is run with ``fresh``, as ``harness run`` always is.
    """

    def __init__(self, stacks: TextIO) -> None:
        self._stacks = stacks
        self._watch_stacks()
        self._handlers: dict[int, Any] = {
            number: signal.getsignal(number) for number in signal.valid_signals()
        }
        self._filters = list(warnings.filters)

    def _watch_stacks(self) -> None:
        faulthandler.register(_STACKS, file=self._stacks, all_threads=True, chain=False)

    def undo(self) -> None:
        """Make the process as it was: signals, timers, warnings, torch's global settings."""
        for timer in _TIMERS:
            signal.setitimer(timer, 0)
        for number, handler in self._handlers.items():
            if handler is None or signal.getsignal(number) == handler:
                continue
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, handler)
            if number == _STACKS:  # it took the place of faulthandler's
                faulthandler.unregister(_STACKS)
                self._watch_stacks()
        if list(warnings.filters) != self._filters:
            warnings.resetwarnings()  # forgets what was shown once, too
            warnings.filters[:] = self._filters  # type: ignore[index]
        torch.set_default_dtype(torch.float32)
        _forget_default_device()
        torch.set_grad_enabled(True)
        torch.set_num_threads(1)
        if torch.are_deterministic_algorithms_enabled():
            torch.use_deterministic_algorithms(False)  # imports torch's compiler
        torch.autograd.set_detect_anomaly(False)
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.deterministic = torch.backends.cudnn.benchmark = False


def _forget_default_device() -> None:
    """Undo ``torch.set_default_device``, as if it had never been called.

    Torch 2.8 looks into what ``set_default_device(None)`` leaves, and fails.
    """
    context: Any = getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None)
    if context is None or getattr(context, "device_context", None) is not None:
        torch.set_default_device(None)
    if context is not None:
        vars(context).pop("device_context", None)
