"""The simulated world in a process of its own, which a program may take down with it."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from harness import recorder as recording
from harness.worlds import Echo, Outcome, Program, RankContext, WorldError
from harness.worlds.backends import BACKENDS
from harness.worlds.exits import describe_exit
from harness.worlds.job import pickled_program
from harness.worlds.processes import ProcessWorld

if TYPE_CHECKING:
    from harness.worlds.simulated.recorded import Recorded

T = TypeVar("T")

_MARK = "\x1e"  # begins a line that a simulated rank has printed
_BEAT_S = 1.0
_SLACK_S = 20.0  # for the process to say that a run has come to no end


@dataclass(frozen=True, slots=True)
class _Host:
    """What the process runs: all ranks of one program."""

    program: Program  # without its entry
    pickled: bytes
    world_size: int
    timeout: float
    limit: float | None

    def __call__(self, context: RankContext) -> Any:
        stream = sys.stdout

        def echo(rank: int, line: str) -> None:
            shown = line.encode("utf-8", "backslashreplace").decode()  # lone surrogates, too
            stream.write(f"{_MARK}{rank} {shown}\n")

        try:
            return self.run(echo)
        except WorldError as refusal:
            return refusal

    def run(self, echo: Echo | None) -> Recorded:
        """Run them in this process."""
        from harness.worlds.simulated.state import Modules
        from harness.worlds.simulated.world import Run

        modules = [Modules() for _ in range(self.world_size)]
        run = Run(
            self.program, self.pickled, self.world_size, modules, self.timeout, self.limit, echo
        )
        run.on_watch = _Heart(recording.active()).beat
        return run.go()


class _Heart:
    """Shows the command that the run is watched, though no rank of its own does anything."""

    def __init__(self, recorder: Any) -> None:
        self._recorder = recorder
        self._last = 0.0

    def beat(self) -> None:
        """Write something harmless, once in a while."""
        now = time.monotonic()
        if self._recorder is not None and now - self._last >= _BEAT_S:
            self._last = now
            self._recorder.beat()


def _nothing(context: RankContext) -> None:
    """Stand in for an entry that travels by itself."""


class HostedWorld:
    """Runs programs on simulated ranks in the process of an isolated world, as that world does."""

    name = "sim"

    def run(
        self,
        program: Program,
        world_size: int,
        *,
        timeout: float,
        echo: Echo | None = None,
        limit: float | None = None,
    ) -> Outcome:
        """Run ``program``; as for any world."""
        host = _Host(program, pickled_program(program), world_size, timeout, limit)
        return host.run(echo).outcome(timeout)

    def close(self) -> None:
        """Nothing to end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class IsolatedWorld:
    """Runs programs on simulated ranks, in another process.

    Where that process dies in the middle of a run, the program is run on real ranks, each of
    which may die by itself: the outcome is theirs.
    """

    name = "sim"

    def __init__(self, processes: ProcessWorld | None = None) -> None:
        self._is_shared = processes is not None
        self._processes = processes or ProcessWorld(BACKENDS["gloo"])
        self._processes.start()

    def run(
        self,
        program: Program,
        world_size: int,
        *,
        timeout: float,
        echo: Echo | None = None,
        limit: float | None = None,
    ) -> Outcome:
        """Run ``program``; as for any world. WorldError when it cannot be simulated."""
        host = _Host(
            replace(program, entry=_nothing), pickled_program(program), world_size, timeout, limit
        )
        outcome = self._processes.run(
            Program(host, init_group=False, fresh=program.fresh, warm=program.warm, hosts=True),
            1,
            timeout=timeout + _SLACK_S,
            echo=None if echo is None else _sorted(echo),
        )
        (rank,) = outcome.ranks
        if outcome.ending == "interrupted":
            return outcome
        if isinstance(rank.result, WorldError):
            raise rank.result
        if rank.error is not None:
            raise WorldError(f"backend sim failed: {rank.error.type}: {rank.error.message}")
        if not rank.finished or rank.result is None:  # its pipes may be closed, by the program
            told = replace(program, fresh=True)
            real = self._processes.run(told, world_size, timeout=timeout, echo=echo, limit=limit)
            how = describe_exit(rank.exit_status)
            real.notes["instead"] = f"simulated, the program took its process down: it {how}"
            return real
        simulated: Outcome = rank.result.outcome(timeout)
        return simulated

    def run_each(
        self,
        entry: Callable[[RankContext], dict[int, T]],
        processes: int,
        *,
        timeout: float,
        warm: bool = True,
    ) -> dict[int, T]:
        """Run ``entry`` in several processes; return what those that ended well have returned.

        KeyboardInterrupt where the user stops it, WorldError where ``entry`` itself raises.
        """
        told = Program(entry, init_group=False, warm=warm, hosts=True)
        outcome = self._processes.run(told, processes, timeout=timeout + _SLACK_S)
        if outcome.ending == "interrupted":
            raise KeyboardInterrupt
        found: dict[int, T] = {}
        for rank in outcome.ranks:
            if rank.error is not None:  # our own: a program's is in what it returns
                raise WorldError(f"backend sim failed: {rank.error.type}: {rank.error.message}")
            if rank.finished:
                found.update(rank.result)
        return found

    def close(self) -> None:
        """End the processes, unless they are another world's as well."""
        if not self._is_shared:
            self._processes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()


def _sorted(echo: Echo) -> Echo:
    """Give each simulated rank the lines that it has printed."""

    def one(_: int, line: str) -> None:
        match = re.match(rf"{_MARK}(\d+) ", line)
        if match is None:
            echo(0, line)  # printed below Python
        else:
            echo(int(match[1]), line[match.end() :])

    return one
