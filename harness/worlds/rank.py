"""One rank: a process that runs the programs it is sent, under a recorder."""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import random
import sys
import threading
import time
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from harness import recorder as recording
from harness.frames import Frames
from harness.recorder import Recorder
from harness.ring import Ring
from harness.targets import aside
from harness.trace import RankError
from harness.worlds import Program, RankContext
from harness.worlds.backends import BACKENDS, Backend
from harness.worlds.failure import describe
from harness.worlds.job import Job
from harness.worlds.leftovers import Leftovers

GROUP_TIMEOUT = timedelta(days=1)  # the harness decides when a wait has been too long


def serve(control_fd: int, ring_fd: int, stacks_fd: int, output_fd: int) -> int:
    """Run jobs until the command closes the connection; return the exit status."""
    _redirect(output_fd)
    leftovers = Leftovers(os.fdopen(stacks_fd, "w"))
    aside.allow()
    control, ring = Connection(control_fd), Ring(ring_fd)
    stores = Stores()
    process = os.getpid()
    while True:
        try:
            job = control.recv()
            # what the recorder keeps (buffered sends) lives until all ranks have finished
            answer, status, recorder = run_job(job, ring, stores)
            if os.getpid() != process:
                return status  # a fork that the program made and let return
            control.send(answer)
            order = control.recv()  # no connection is closed while another rank may need it
            if order == "exit":
                atexit._run_exitfuncs()
                return status
            if dist.is_initialized():
                dist.destroy_process_group()
            del recorder
            if threading.active_count() > 1 or _has_children() or aside.was_hidden():
                return status  # something of the program goes on: not to be used again
            leftovers.undo()
            control.send(("idle",))
        except (EOFError, OSError):
            return 0  # the command is gone


def _has_children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def _redirect(output_fd: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output_fd, 1)
    os.dup2(output_fd, 2)
    os.close(null)
    os.close(output_fd)


def _open_streams() -> None:
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115


class Stores:
    """Connections to the key-value stores of this world; the last one is kept."""

    def __init__(self) -> None:
        self._port: int | None = None
        self._store: Any = None

    def connect(self, port: int, prefix: str) -> Any:
        """Return the store at ``port``, with this case's prefix."""
        if port != self._port:
            self._store = c10d.TCPStore(
                "127.0.0.1", port, is_master=False, wait_for_workers=False, timeout=GROUP_TIMEOUT
            )
            self._port = port
        return c10d.PrefixStore(prefix, self._store)


def run_job(job: Job, ring: Ring, stores: Stores) -> tuple[tuple[Any, ...], int, Recorder | None]:
    """Run one program to its end; return what to tell the command, and an exit status."""
    backend = BACKENDS[job.backend]
    _enter(job, backend)
    recorder: Recorder | None = None
    status = 0
    try:
        program: Program = pickle.loads(job.program)
        recorder = _recorder(program, job, backend, ring)
        if program.init_group:
            backend.prepare(job.rank)
            store = stores.connect(job.port, job.prefix)
            dist.init_process_group(
                backend.name,
                store=store,
                rank=job.rank,
                world_size=job.world_size,
                timeout=GROUP_TIMEOUT,
                **backend.init_options(job.rank),
            )
            _meet(store, job.world_size)
            recorder.initialised()
        _seed(program.seed)
        recording.activate(recorder)
        try:
            result = program.entry(
                RankContext(job.rank, job.world_size, backend.device(job.rank), job.backend)
            )
            _join_threads()
            backend.finish()
        finally:
            aside.come_back()
        answer: tuple[Any, ...] = ("finished", pickle.dumps(result), time.monotonic_ns())
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        if status == 0:
            answer = ("finished", pickle.dumps(None), time.monotonic_ns())
        else:
            answer = ("raised", _told(stop, recorder), time.monotonic_ns())
    except BaseException as error:
        status = 1
        answer = ("raised", _told(error, recorder), time.monotonic_ns())
    if recorder is not None:
        recorder.finish()
    recording.activate(None)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    return answer, status, recorder


def _join_threads() -> None:
    """Wait for what the program left running, as an ending process does."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _meet(store: Any, world_size: int) -> None:
    """Wait until the group is ready on every rank: a program may destroy it at once."""
    if store.add("ready", 1) == world_size:
        store.set("all ready", "")
    store.wait(["all ready"])


def _recorder(program: Program, job: Job, backend: Backend, ring: Ring) -> Recorder:
    return Recorder(
        ring,
        rank=job.rank,
        world=job.world_size,
        delay_ms=program.delay_ms,
        seed=program.seed * 1009 + job.rank,
        buffered=program.buffered_sends,
        host_blocking=backend.host_blocking,
    )


def _enter(job: Job, backend: Backend) -> None:
    """Take on the command's surroundings and torchrun's variables; nothing of an earlier case."""
    _open_streams()
    sys.argv = [""]
    os.environ.clear()
    os.environ.update(backend.environment(job.rank) | job.environment)
    sys.path[:] = job.path
    with contextlib.suppress(OSError):
        os.chdir(job.folder)


def _seed(seed: int) -> None:
    import numpy

    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def _told(error: BaseException, recorder: Recorder | None) -> RankError:
    frames = recorder.frames if recorder is not None else Frames()
    return describe(error, frames, time.monotonic_ns())
