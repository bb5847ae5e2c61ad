"""Real ranks: a pool of warm processes, a fresh process group for each case."""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import resource
import selectors
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType
from typing import Self

from harness.worlds import Echo, Outcome, Program, WorldError
from harness.worlds.backends import Backend
from harness.worlds.job import Job, free_port, pickled_program, torchrun_environment
from harness.worlds.server import RankProcess, Server, StoreProcess
from harness.worlds.watch import ServerGoneError, StoreGoneError, Watch

IDLE_TIMEOUT_S = 10.0  # for a rank to destroy its group and be ready again
EXIT_TIMEOUT_S = 3.0  # for a rank to run its exit handlers
CLOSE_TIMEOUT_S = 10.0  # for a run in another thread to notice that its world is closed
DESCRIPTORS_OF_A_RANK = 4  # that it needs here, one of them for its mapped memory


class ProcessWorld:
    """Runs programs on real processes with one backend.

    Ranks that end well are used again, which makes a case cheap; those of a hung or failed case
    are killed and replaced. Use it as a context manager, or :meth:`close` it. Threads may share
    it: one runs while the others wait for their turn.
    """

    def __init__(self, backend: Backend) -> None:
        self.name = backend.name
        self._backend = backend
        self._server: Server | None = None
        self._store: StoreProcess | None = None
        self._idle: list[RankProcess] = []
        self._cases = 0
        self._owner = os.getpid()
        self._lock = threading.RLock()

    def start(self) -> Server:
        """Start importing torch in the background; the first run waits for it."""
        with self._lock:
            if self._server is not None and not self._server.alive:
                self.close()
            if self._server is None:
                with self._descriptors(1):
                    self._server = Server()
                atexit.register(self.close)
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
        limit: float | None = None,
    ) -> Outcome:
        """Run ``program`` on ``world_size`` ranks; WorldError where that cannot be done.

        While another thread runs something on this world, this one waits for its turn.
        """
        self._backend.require(world_size)
        pickled = pickled_program(program)
        with self._lock, self._descriptors(world_size, program):
            return self._run(program, pickled, world_size, timeout, limit, echo)

    def _run(
        self,
        program: Program,
        pickled: bytes,
        world_size: int,
        timeout: float,
        limit: float | None,
        echo: Echo | None,
    ) -> Outcome:
        server = self.start()
        ranks: list[RankProcess] = []
        store: StoreProcess | None = None
        started = time.monotonic()
        settle = self._backend.settle_s
        try:
            store = self._store_for(program)
            ranks = self._acquire(world_size, program)
            watch = Watch(
                ranks,
                server,
                store,
                timeout=timeout,
                limit=limit,
                settle=settle,
                backend=self.name,
                echo=echo,
            )
            self._send(ranks, pickled, store.port, agent_store=not program.init_group)
            ending = watch.run()
            elapsed = time.monotonic() - started
            if ending == "timeout":
                watch.collect_stacks()
            if ending == "finished" and not program.fresh:
                self._release(ranks)
            else:
                self._end(ranks, watch, server)
            watch.finish()
        except ServerGoneError:
            self.close()
            raise WorldError(
                "the fork server was killed, and its ranks with it; run the command again"
            ) from None
        except StoreGoneError:
            self._drop_store()  # what killed one may be about to have killed the other
            raise WorldError(
                "the key-value store of the ranks was killed; run the command again"
            ) from None
        except KeyboardInterrupt:
            self.close()  # it may have struck anywhere, between a reply and its being noted too
            raise
        finally:
            for rank in ranks:
                if rank not in self._idle:
                    rank.kill()
                    rank.close()
            if store is not None and store is not self._store:
                store.close()
        self._refill(world_size, program)
        return Outcome(watch.decoder.trace, watch.outcomes, ending, elapsed, self.name, timeout)

    def _store_for(self, program: Program) -> StoreProcess:
        """Return the shared store; fresh ranks, and who makes a group himself, get their own."""
        if self._store is not None and self._store.has_ended:
            self._drop_store()
        shared = program.init_group and not program.fresh
        if shared and self._store is not None:
            return self._store
        store = StoreProcess()
        try:
            server = self.start()
            server.make(store)
            store.wait_ready(server)
        except BaseException:
            store.kill()
            store.close()
            raise
        if shared:
            self._store = store
        return store

    def _drop_store(self) -> None:
        """End the shared store; the next case that needs one makes it."""
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def _acquire(self, count: int, program: Program) -> list[RankProcess]:
        server = self.start()
        if not server.pump():
            raise ServerGoneError
        if program.warm:
            server.warm()
            for rank in [rank for rank in self._idle if not (rank.warm or rank.used)]:
                self._idle.remove(rank)  # better ones are made now
                rank.kill()
                rank.close()
        for rank in [rank for rank in self._idle if rank.exit_status is not None]:
            self._idle.remove(rank)
            rank.close()
        while len(usable := [rank for rank in self._idle if rank.may_run(program)]) < count:
            self._make()
        ranks = usable[:count]
        for rank in ranks:
            rank.used, rank.hosts = True, program.hosts
        self._idle = [rank for rank in self._idle if rank not in ranks]
        return ranks

    def _make(self) -> None:
        """Add a rank to the idle ones; nothing of it is left when that fails."""
        rank = RankProcess()
        try:
            self.start().make(rank)
        except BaseException:
            rank.kill()
            rank.close()
            raise
        self._idle.append(rank)

    @contextlib.contextmanager
    def _descriptors(self, count: int, program: Program | None = None) -> Iterator[None]:
        """Turn it into a WorldError that helps when file descriptors run out for ``count`` ranks.

        A gloo rank has a connection to every other one, and some more of its own.
        """
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        needed = 3 * count + 8
        with contextlib.suppress(OSError):
            usable = sum(program is not None and rank.may_run(program) for rank in self._idle)
            idle = DESCRIPTORS_OF_A_RANK * usable
            ours = len(os.listdir("/dev/fd")) - idle  # noqa: PTH208
            needed = max(needed, ours + DESCRIPTORS_OF_A_RANK * count + 8)
        message = (
            f"{count} {'rank needs' if count == 1 else 'ranks need'} about {needed} file "
            f"descriptors, and {limit} are allowed; raise the limit (ulimit -n {2 * needed}) "
            "or use fewer ranks"
        )
        if resource.RLIM_INFINITY != limit < needed:
            raise WorldError(message)
        try:
            yield
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ETOOMANYREFS):
                raise WorldError(message) from None
            raise

    def _refill(self, count: int, program: Program) -> None:
        """Have ranks ready for a next case like this one, forked while we go on."""
        program = replace(program, fresh=False)
        with contextlib.suppress(OSError):  # then the next case says what is wrong
            while sum(rank.may_run(program) for rank in self._idle) < count:
                self._make()

    def _send(
        self, ranks: list[RankProcess], program: bytes, port: int, *, agent_store: bool
    ) -> None:
        self._cases += 1
        size, master = len(ranks), port if agent_store else free_port()
        for index, rank in enumerate(ranks):
            job = Job(
                program=program,
                rank=index,
                world_size=size,
                backend=self.name,
                port=port,
                prefix=f"case{self._cases}",
                environment=os.environ
                | torchrun_environment(index, size, master, agent_store=agent_store),
            )
            rank.output = ""
            try:
                rank.control.send(job)
            except OSError:  # it was killed: the watch tells so
                continue

    def _release(self, ranks: list[RankProcess]) -> None:
        """Have all ranks destroy their group, and keep those that are then ready."""
        deadline = time.monotonic() + IDLE_TIMEOUT_S
        with selectors.DefaultSelector() as waiting:
            for rank in ranks:
                _tell(rank, "teardown")
                waiting.register(rank.control, selectors.EVENT_READ, rank)
            while waiting.get_map() and (left := deadline - time.monotonic()) > 0:
                for key, _ in waiting.select(left):
                    rank = key.data
                    try:
                        is_idle = bool(rank.control.receive())
                    except EOFError:
                        waiting.unregister(key.fileobj)
                        continue
                    if is_idle:
                        waiting.unregister(key.fileobj)
                        rank.ring.read()
                        self._idle.append(rank)

    def _end(self, ranks: list[RankProcess], watch: Watch, server: Server) -> None:
        """Let the ranks that have ended leave by themselves, and kill the others."""
        leaving = []
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
        """End every process of this world and return when they are gone.

        A run in another thread ends with a WorldError.
        """
        if os.getpid() != self._owner:
            return  # a fork of the program that uses us
        atexit.unregister(self.close)
        server = self._server
        is_mine = self._lock.acquire(blocking=False)
        if not is_mine and server is not None:
            server.kill()  # its watch notices, and gives way
            is_mine = self._lock.acquire(timeout=CLOSE_TIMEOUT_S)
        try:
            server, self._server = self._server, None
            if server is not None:
                server.close()
            idle, self._idle = self._idle, []
            for rank in idle:
                rank.close()
            self._drop_store()
        finally:
            if is_mine:
                self._lock.release()


def _tell(rank: RankProcess, order: str) -> None:
    try:
        rank.control.send(order)
    except OSError:
        rank.kill()
