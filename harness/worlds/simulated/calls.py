"""Calls that a simulated rank makes of Python and torch, and that mean its own process there."""

from __future__ import annotations

import _thread
import atexit
import contextlib
import errno
import functools
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from typing import Any
from urllib.parse import parse_qs, urlparse

from torch.distributed import distributed_c10d as c10d

from harness.worlds.processes import ProcessWorld
from harness.worlds.simulated.replacing import Replacing
from harness.worlds.simulated.simulation import Simulation
from harness.worlds.simulated.unwinding import Killed, Unwind

_INIT = (
    "backend", "init_method", "timeout", "world_size", "rank", "store", "group_name",
    "pg_options", "device_id", "_ranks",
)  # fmt: skip
_STARTS = (
    "start_new_thread", "_start_new_thread", "start_joinable_thread", "_start_joinable_thread"
)  # fmt: skip
_KEPT = ("timeout", "group_name", "_ranks")
_HARMLESS = (signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH)
_ENVIRONMENT = 5  # its place among the arguments of _fork_exec


class Calls(Replacing):
    """Replaces them for one run; :meth:`remove` puts the originals back."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self._children: list[int] = []
        self._handlers: dict[tuple[int, int], Any] = {}  # rank, signal → its handler
        self._at_exit: dict[int, list[Callable[[], Any]]] = {}  # rank → what it has registered

    def install(self) -> None:
        """Replace them; :meth:`remove` also undoes a part of it."""
        for owner, name, make in (
            (time, "sleep", self._sleep),
            (os, "_exit", self._exit),
            (os, "kill", self._kill),
            (os, "abort", self._abort),
            (os, "fork", self._fork),
            (BaseProcess, "start", self._start_process),
            (signal, "signal", self._signal),
            (signal, "getsignal", self._getsignal),
            (signal, "raise_signal", self._raise_signal),
            (signal, "alarm", self._timer),
            (signal, "setitimer", self._timer),
            (subprocess, "_fork_exec", self._fork_exec),
            (atexit, "register", self._register),
            (atexit, "unregister", self._unregister),
            (ProcessWorld, "start", self._no_world),
            (ProcessWorld, "run", self._no_world),
        ):
            self.replace(owner, name, make)
        for owner in (_thread, threading):
            for name in _STARTS:
                if hasattr(owner, name):
                    self.replace(owner, name, self._start_thread)

    def remove(self) -> None:
        """Put the originals back, and end the processes that the ranks have started."""
        for pid in self._children:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                if os.waitpid(pid, os.WNOHANG) == (0, 0):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
        super().remove()

    def _sleep(self, original: Any) -> Any:
        def sleep(seconds: float) -> None:
            if not self.is_a_rank() or seconds < 0:
                original(seconds)
            else:
                self._simulation.scheduler.sleep(int(seconds * 1e9))

        return sleep

    def _exit(self, original: Any) -> Any:
        def _exit(status: int) -> None:
            if self.is_a_rank():
                self._simulation.die(status)
            original(status)

        return _exit

    def _abort(self, original: Any) -> Any:
        def abort() -> None:
            if self.is_a_rank():
                self._simulation.die(-6)
            original()

        return abort

    def _kill(self, original: Any) -> Any:
        def kill(pid: int, number: int) -> None:
            target = self._rank_of(pid) if self.is_a_rank() else None
            if target is None:
                original(pid, number)
            elif target == self._simulation.rank:
                if number:
                    self._hit(int(number))
            else:
                self._hit_another(target, int(number))

        return kill

    def _rank_of(self, pid: int) -> int | None:
        """Return the rank whose process that is; of the real one's id the running rank."""
        if pid == _process_id():
            return self._simulation.rank
        for fiber in self._simulation.scheduler.fibers:
            if fiber.thread is not None and fiber.thread.native_id == pid:
                return fiber.rank
        return None

    def _hit_another(self, rank: int, number: int) -> None:
        """The running rank sends a signal to another one."""
        if self._simulation.scheduler.fibers[rank].over:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        if not number or number in _HARMLESS:
            return
        if self._handlers.get((rank, number), signal.SIG_DFL) != signal.SIG_DFL:
            raise self._simulation.refuse("a signal to another rank, which has a handler for it")
        self._simulation.kill(rank, -number)

    def _raise_signal(self, original: Any) -> Any:
        def raise_signal(number: int) -> None:
            if self.is_a_rank():
                self._hit(int(number))
            else:
                original(number)

        return raise_signal

    def _hit(self, number: int) -> None:
        """The running rank sends itself a signal: its handler runs, or it dies."""
        handler = self._handlers.get((self._simulation.rank, number), signal.SIG_DFL)
        if callable(handler):
            handler(number, sys._getframe(3))
        elif number == signal.SIGINT and handler == signal.SIG_DFL:
            raise KeyboardInterrupt
        elif handler == signal.SIG_DFL and number not in _HARMLESS:
            self._simulation.die(-number)

    def _start_thread(self, original: Any) -> Any:
        def start(*args: Any, **kwargs: Any) -> Any:
            if self.is_a_rank() and (place := self.user_who_called()) is not None:
                _forget(args)
                raise self._simulation.refuse(f"threads of the program's own, as at {place}")
            return original(*args, **kwargs)

        return start

    def _fork(self, original: Any) -> Any:
        def fork() -> int:
            if self.is_a_rank():
                raise self._simulation.refuse("os.fork")
            return int(original())

        return fork

    def _start_process(self, original: Any) -> Any:
        def start(process: Any) -> None:
            if self.is_a_rank():
                place = self.user_who_called()
                where = "" if place is None else f", as at {place}"
                raise self._simulation.refuse(f"processes by multiprocessing{where}")
            original(process)

        return start

    def _fork_exec(self, original: Any) -> Any:
        def fork_exec(*args: Any) -> int:
            if not self.is_a_rank():
                return int(original(*args))
            given = list(args)
            if given[_ENVIRONMENT] is None:  # the process's own is no rank's
                given[_ENVIRONMENT] = [b"%b=%b" % item for item in _environment().items()]
            pid = int(original(*given))
            self._children.append(pid)
            return pid

        return fork_exec

    def _signal(self, original: Any) -> Any:
        """A rank is no main thread: its handlers are noted, and called for its own signals."""

        def set_handler(number: int, handler: Any) -> Any:
            if not self.is_a_rank():
                return original(number, handler)
            before = signal.getsignal(number)
            self._handlers[self._simulation.rank, int(number)] = handler
            return before

        return set_handler

    def _getsignal(self, original: Any) -> Any:
        def getsignal(number: int) -> Any:
            if not self.is_a_rank():
                return original(number)
            usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            return self._handlers.get((self._simulation.rank, int(number)), usual)

        return getsignal

    def _timer(self, original: Any) -> Any:
        """A timer's signal would hit the whole process; to turn one off is all right."""

        def set_timer(*args: Any) -> Any:
            if not self.is_a_rank():
                return original(*args)
            if args[len(args) > 1]:
                raise self._simulation.refuse("a timer that sends a signal (signal.alarm)")
            return 0 if len(args) == 1 else (0.0, 0.0)  # what is left of the timer before

        return set_timer

    def _no_world(self, original: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            if self.is_a_rank():
                raise self._simulation.refuse("a run of the harness inside of a rank")
            return original(*args, **kwargs)

        return run

    def _register(self, original: Any) -> Any:
        def register(function: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not self.is_a_rank() or self.user_who_called() is None:
                return original(function, *args, **kwargs)
            run = functools.partial(function, *args, **kwargs)
            self._at_exit.setdefault(self._simulation.rank, []).append(run)
            return function

        return register

    def _unregister(self, original: Any) -> Any:
        def unregister(function: Any) -> None:
            if self.is_a_rank():
                mine = self._at_exit.get(self._simulation.rank, [])
                mine[:] = [run for run in mine if getattr(run, "func", None) != function]
            original(function)

        return unregister

    def at_exit(self) -> None:
        """Run what the running rank has registered for the end of its process, the last first."""
        mine = self._at_exit.pop(self._simulation.rank, [])
        while mine:
            try:
                mine.pop()()
            except (Unwind, Killed):
                raise
            except BaseException:
                traceback.print_exc()


def _environment() -> dict[bytes, bytes]:
    """Return the running rank's."""
    return os.environ._data  # type: ignore[attr-defined,no-any-return]


_process_id = os.getpid  # of a simulated rank's own process there is another


def _forget(args: Sequence[Any]) -> None:
    """Let the threading module forget a thread that does not start."""
    thread = getattr(args[0], "__self__", None) if args else None
    with threading._active_limbo_lock:  # type: ignore[attr-defined]
        threading._limbo.pop(thread, None)  # type: ignore[attr-defined]


def init_process_group(simulation: Simulation) -> Callable[[Any], Any]:
    """Return what wraps torch's function: every backend and every rendezvous is simulated."""

    def wrap(original: Any) -> Any:
        @functools.wraps(original)
        def init_process_group(*args: Any, **kwargs: Any) -> Any:
            given = dict(zip(_INIT, args, strict=False)) | kwargs
            if c10d._world.default_pg is not None:
                return original(*args, **kwargs)  # which refuses
            world_size, rank = _who(given)
            if (str(rank), str(world_size)) != (str(simulation.rank), str(simulation.world_size)):
                raise simulation.refuse(
                    f"a group of {world_size} in which process {simulation.rank} of "
                    f"{simulation.world_size} is rank {rank}"
                )
            store = simulation.stores.get(("default", simulation.initialising()))
            kept = {name: given[name] for name in _KEPT if name in given}
            return original(
                given.get("backend"),
                world_size=simulation.world_size,
                rank=simulation.rank,
                store=store,
                **kept,
            )

        return init_process_group

    return wrap


def _who(given: dict[str, Any]) -> tuple[Any, Any]:
    """Return the world size and rank that a program gives, in whichever way."""
    query = parse_qs(urlparse(str(given.get("init_method") or "")).query)
    found = []
    for name, variable in (("world_size", "WORLD_SIZE"), ("rank", "RANK")):
        value = given.get(name, -1)
        if value in (None, -1):
            value = query.get(name, [os.environ.get(variable)])[0]
        found.append(value)
    return found[0], found[1]


def frames_of(thread: threading.Thread | None) -> list[tuple[str, int, str]]:
    """Return where a thread is: file, line and function, the innermost last."""
    frame = sys._current_frames().get(thread.ident) if thread and thread.ident else None
    found = []
    while frame is not None:
        code = frame.f_code
        found.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return found[::-1]
