"""What a simulated rank asks of its process, and has to itself as if it were one.

Its id, its working folder, how long it has slept, its locks on files, and settings that a process
makes once. A process's id is here the one of the rank's thread, which the system knows as well.
"""

from __future__ import annotations

import fcntl
import functools
import os
import sys
import threading
import time
from typing import Any

import torch
from torch import library
from torch.nn.parallel import DistributedDataParallel

from harness.targets import loading
from harness.worlds.simulated import torch_private
from harness.worlds.simulated.replacing import Replacing
from harness.worlds.simulated.simulation import Simulation

_LOCK_POLL_NS = 1_000_000
_FUTURE_POLL_NS = 100_000_000
_sleep = time.sleep


class OwnProcess(Replacing):
    """Replaces these calls for one run."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self._folder = os.getcwd()  # noqa: PTH109
        self._interop: dict[int, int] = {}  # rank → the number of threads that it has set

    def install(self) -> None:
        """Replace them; :meth:`remove` also undoes a part of it."""
        for name in ("time", "monotonic", "perf_counter"):
            self.replace(time, name, self._clock)
            self.replace(time, f"{name}_ns", self._clock_ns)
        self.replace(os, "getpid", self._getpid)
        self.replace(os, "chdir", self._chdir)
        self.replace(fcntl, "flock", self._flock)
        self.replace(torch, "set_num_interop_threads", self._set_interop)
        self.replace(torch, "get_num_interop_threads", self._get_interop)
        self.replace(library.Library, "__init__", self._register)
        self.replace(library, "define", self._register)
        self.replace(torch_private.Future, "wait", self._future_wait)
        self.replace(DistributedDataParallel, "register_comm_hook", self._hook)

    def _clock(self, original: Any) -> Any:
        """Count the time that was slept, which did not pass outside."""
        return lambda: original() + self._slept_ns() / 1e9

    def _clock_ns(self, original: Any) -> Any:
        return lambda: original() + self._slept_ns()

    def _slept_ns(self) -> int:
        slept = self._simulation.scheduler.slept_ns
        return slept if slept and self.is_a_rank() else 0

    def _getpid(self, original: Any) -> Any:
        def getpid() -> int:
            caller = sys._getframe(2).f_code.co_filename  # a library's own notes are the process's
            if self.is_a_rank() and loading.is_users(caller):
                return threading.get_native_id()
            return int(original())

        return getpid

    def _chdir(self, original: Any) -> Any:
        def chdir(path: Any) -> None:
            original(path)
            if (mine := self._simulation.scheduler.on_this_thread) is not None:
                for fiber in self._simulation.scheduler.fibers:
                    fiber.state.folder = fiber.state.folder or self._folder
                mine.state.folder = os.getcwd()  # noqa: PTH109

        return chdir

    def _flock(self, original: Any) -> Any:
        """Let the others go on while a lock on a file is another's."""

        def flock(file: Any, operation: int) -> None:
            if not self.is_a_rank() or operation & (fcntl.LOCK_NB | fcntl.LOCK_UN):
                original(file, operation)
                return
            while True:
                try:
                    original(file, operation | fcntl.LOCK_NB)
                except BlockingIOError:
                    self._simulation.scheduler.sleep(_LOCK_POLL_NS)
                else:
                    return

        return flock

    def _set_interop(self, original: Any) -> Any:
        """A process does this once, at its start; here it was done by whoever started the run."""

        def set_num_interop_threads(number: int) -> None:
            if not self.is_a_rank():
                original(number)
                return
            if number < 1:
                raise RuntimeError("Expected a positive number of threads")
            if self._simulation.rank in self._interop:
                raise RuntimeError(
                    "Error: cannot set number of interop threads after parallel work has started "
                    "or set_num_interop_threads called"
                )
            self._interop[self._simulation.rank] = int(number)

        return set_num_interop_threads

    def _get_interop(self, original: Any) -> Any:
        def get_num_interop_threads() -> int:
            own = self._interop.get(self._simulation.rank) if self.is_a_rank() else None
            return int(original()) if own is None else own

        return get_num_interop_threads

    def _register(self, original: Any) -> Any:
        """Every rank would register them anew, in the one table of the process."""

        def register(*args: Any, **kwargs: Any) -> Any:
            if self.is_a_rank() and (place := self.user_who_called()) is not None:
                raise self._simulation.refuse(
                    f"operators that each rank registers with torch.library, as at {place}"
                )
            return original(*args, **kwargs)

        return register

    def _future_wait(self, original: Any) -> Any:
        """Let the others go on, by whom or by whose messages the future is completed."""

        def wait(future: Any) -> Any:
            while self.is_a_rank() and not torch_private.Future.done(future):
                if not self._simulation.scheduler.block(
                    lambda: torch_private.Future.done(future), _FUTURE_POLL_NS
                ):
                    _sleep(0.001)  # a thread of torch's own may complete it
            return original(future)

        return wait

    def _hook(self, original: Any) -> Any:
        """Complete what a hook returns: torch's C++ would wait for it without our knowing."""

        def register_comm_hook(model: Any, state: object, hook: Any) -> None:
            if not (hasattr(hook, "__name__") and hasattr(hook, "__qualname__")):
                original(model, state, hook)  # which refuses
                return

            @functools.wraps(hook)
            def completed(state: object, bucket: Any) -> Any:
                future = hook(state, bucket)
                if self.is_a_rank():
                    future.wait()
                return future

            original(model, state, completed)

        return register_comm_hook
