"""Real ranks: a pool of warm processes, a fresh process group for each case."""

from __future__ import annotations

import atexit
import os
import time
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Self

from harness.pickling import dumps
from harness.worlds import Echo, Outcome, Program, WorldError
from harness.worlds.backends import Backend
from harness.worlds.job import Job, torchrun_environment
from harness.worlds.server import RankProcess, Server, StoreProcess
from harness.worlds.watch import ServerGoneError, Watch

IDLE_TIMEOUT_S = 10.0  # for a rank to destroy its group and be ready again
EXIT_TIMEOUT_S = 3.0  # for a rank to run its exit handlers


class ProcessWorld:
    """Runs programs on real processes with one backend.

    Ranks that end well are used again, which makes a case cheap; those of a hung or failed case
    are killed and replaced. Use it as a context manager, or :meth:`close` it.
    """

    def __init__(self, backend: Backend) -> None:
        self.name = backend.name
        self._backend = backend
        self._server: Server | None = None
        self._store: StoreProcess | None = None
        self._idle: list[RankProcess] = []
        self._cases = 0
        self._owner = os.getpid()
        atexit.register(self.close)

    def start(self) -> Server:
        """Start importing torch in the background; the first run waits for it."""
        if self._server is not None and not self._server.alive:
            self.close()
        if self._server is None:
            self._server = Server()
        return self._server

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()

    def run(
        self,
        program: Program,
        world_size: int,
        *,
        timeout: float,
        echo: Echo | None = None,
    ) -> Outcome:
        """Run ``program`` on ``world_size`` ranks; WorldError where that cannot be done."""
        self._backend.require(world_size)
        try:
            pickled = dumps(program)
        except Exception as error:
            raise WorldError(
                f"the program cannot be sent to its ranks: {error}; "
                "leave out of it what cannot be pickled, or give it as file.py:function"
            ) from None
        server = self.start()
        ranks: list[RankProcess] = []
        store: StoreProcess | None = None
        started = time.monotonic()
        settle = self._backend.settle_s
        try:
            store = self._store_for(program)
            ranks = self._acquire(world_size, fresh=program.fresh)
            watch = Watch(
                ranks, server, timeout=timeout, settle=settle, backend=self.name, echo=echo
            )
            self._send(ranks, pickled, store.port)
            ending = watch.run()
            elapsed = time.monotonic() - started
            if ending == "timeout":
                watch.collect_stacks()
            if ending == "finished" and not program.fresh:
                self._release(ranks)
            else:
                self._end(ranks, watch)
            watch.finish()
        except ServerGoneError:
            self.close()
            raise WorldError(
                "the fork server was killed, and its ranks with it; run the command again"
            ) from None
        finally:
            for rank in ranks:
                if rank not in self._idle:
                    rank.kill()
                    rank.close()
            if store is not None and store is not self._store:
                store.close()
        self._refill(world_size)
        return Outcome(watch.decoder.trace, watch.outcomes, ending, elapsed, self.name, timeout)

    def _store_for(self, program: Program) -> StoreProcess:
        """Return the shared store; a program that makes its own group gets one to itself."""
        if program.init_group and self._store is not None and self._store.exit_status is None:
            return self._store
        store = StoreProcess()
        self.start().make(store)
        store.wait_ready()
        if program.init_group:
            self._store = store
        return store

    def _acquire(self, count: int, *, fresh: bool) -> list[RankProcess]:
        server = self.start()
        if not server.pump():
            raise ServerGoneError
        for rank in [rank for rank in self._idle if rank.exit_status is not None]:
            self._idle.remove(rank)
            rank.close()
        usable = [rank for rank in self._idle if not (fresh and rank.used)][:count]
        ranks = [*usable, *(self._make() for _ in range(count - len(usable)))]
        self._idle = [rank for rank in self._idle if rank not in ranks]
        return ranks

    def _make(self) -> RankProcess:
        rank = RankProcess()
        self.start().make(rank)
        return rank

    def _refill(self, count: int) -> None:
        """Have ranks ready for a next case of this size, forked while we go on."""
        while len(self._idle) < count:
            self._idle.append(self._make())

    def _send(self, ranks: list[RankProcess], program: bytes, port: int) -> None:
        self._cases += 1
        size = len(ranks)
        for index, rank in enumerate(ranks):
            job = Job(
                program=program,
                rank=index,
                world_size=size,
                backend=self.name,
                port=port,
                prefix=f"case{self._cases}",
                environment=os.environ | torchrun_environment(index, size, port),
            )
            rank.used, rank.output = True, ""
            try:
                rank.control.send(job)
            except OSError:  # it was killed: the watch tells so
                continue

    def _release(self, ranks: list[RankProcess]) -> None:
        """Have all ranks destroy their group, and keep those that are then ready."""
        waiting = {rank.control: rank for rank in ranks}
        for rank in ranks:
            _tell(rank, "teardown")
        deadline = time.monotonic() + IDLE_TIMEOUT_S
        while waiting and (left := deadline - time.monotonic()) > 0:
            for control in wait(list(waiting), left):
                assert isinstance(control, Connection)
                rank = waiting.pop(control)
                try:
                    rank.control.recv()
                except (EOFError, OSError):
                    continue
                rank.ring.read()
                self._idle.append(rank)

    def _end(self, ranks: list[RankProcess], watch: Watch) -> None:
        """Let the ranks that have ended leave by themselves, and kill the others."""
        server, leaving = self.start(), []
        for rank, outcome in zip(ranks, watch.outcomes, strict=True):
            if outcome.finished or outcome.error is not None:
                _tell(rank, "exit")
                leaving.append((rank, outcome))
            else:
                rank.kill()
        deadline = time.monotonic() + EXIT_TIMEOUT_S
        while any(rank.exit_status is None for rank, _ in leaving):
            left = deadline - time.monotonic()
            if left <= 0 or not server.pump(min(left, 0.1)):
                break
            for index in range(len(ranks)):
                watch.read_output(index)
        for rank, outcome in leaving:
            outcome.exit_status = rank.exit_status

    def close(self) -> None:
        """End every process of this world and return when they are gone."""
        if os.getpid() != self._owner:
            return  # a fork of the program that uses us
        atexit.unregister(self.close)
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for rank in self._idle:
            rank.close()
        if self._store is not None:
            self._store.close()
        self._idle, self._store = [], None


def _tell(rank: RankProcess, order: str) -> None:
    try:
        rank.control.send(order)
    except OSError:
        rank.kill()
