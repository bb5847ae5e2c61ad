"""Worlds: where N ranks of a program run (DESIGN: "The idea").

A world takes a :class:`Program` and gives an :class:`Outcome`; checkers read outcomes only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from harness.trace import RankError, Trace


class WorldError(Exception):
    """A world cannot run here; the message says what is missing and what to do."""


@dataclass(frozen=True, slots=True)
class RankContext:
    """What a rank is told about itself."""

    rank: int
    world_size: int
    device: str
    backend: str


Entry = Callable[[RankContext], Any]
Echo = Callable[[int, str], None]  # a rank's number and a line that it printed


@dataclass(frozen=True, slots=True)
class Simulated:
    """How the simulated world runs a program; nothing of it concerns real ranks.

    ``semantics`` and ``capacity`` (bytes) say when a send is done. ``interleaving`` says which rank
    goes on where several can: empty is round robin, ``random:7`` is drawn by a seed,
    ``choices:0.1`` follows a list. ``guard`` watches every operator for tensors that are being
    sent or received.
    """

    semantics: str = "gloo"
    capacity: float = 0
    interleaving: str = ""
    guard: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """What each rank runs.

    ``entry`` is called on every rank as ``entry(context)`` and its result (any picklable value)
    is in the outcome. With ``init_group`` the default process group is ready before the call and
    destroyed after all ranks have finished; without it the program initialises its own (a script
    under torchrun's environment). ``fresh`` ranks have run nothing before and are not used again.
    """

    entry: Entry
    init_group: bool = True
    fresh: bool = False
    delay_ms: int = 0
    seed: int = 0
    warm: bool = True  # has what torch imports for an optimizer: else each rank would, by itself
    hosts: bool = False  # simulated ranks, in processes that are no ranks themselves after that
    buffered_sends: bool = False  # a send completes at once: shows what needs buffering
    simulated: Simulated = Simulated()


@dataclass(slots=True)
class RankOutcome:
    """How one rank ended."""

    rank: int
    result: Any = None
    error: RankError | None = None
    exit_status: int | None = None  # as waitpid tells: negative is a signal; None: still alive
    finished: bool = False
    output: str = ""  # the last of its stdout and stderr
    stack: tuple[Any, ...] = ()  # Frames, when it hung


Ending = Literal["finished", "failed", "stuck", "timeout", "interrupted"]


@dataclass(slots=True)
class Outcome:
    """One case's history and results; what the checkers judge."""

    trace: Trace
    ranks: list[RankOutcome]
    ending: Ending
    elapsed_s: float
    backend: str = "gloo"
    timeout_s: float = 0.0
    notes: dict[str, Any] = field(default_factory=dict)


class World(Protocol):
    """Runs programs on N ranks."""

    name: str

    def run(
        self,
        program: Program,
        world_size: int,
        *,
        timeout: float,
        echo: Echo | None = None,
        limit: float | None = None,
    ) -> Outcome:
        """Run ``program`` on ``world_size`` ranks; never raises for what a rank does.

        ``timeout`` is seconds without any progress, ``limit`` seconds in all: either ends the
        case as ``timeout``. ``echo`` gets (rank, line) of output live.
        """
        ...

    def close(self) -> None:
        """Leave nothing behind: no process, file or shared memory."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None: ...


def open_world(backend: str, *, isolated: bool = False, beside: World | None = None) -> World:
    """Return a world of that backend, starting up in the background.

    The simulated one runs in this process, or ``isolated`` in one of its own, which a program may
    take down with it. ``beside`` is a world of gloo's that makes these processes as well, and is
    closed by whoever opened it.

    Raises WorldError when the backend is not known; whether enough devices are there is
    checked for each world size, by :meth:`World.run`.
    """
    from harness.worlds.backends import BACKENDS
    from harness.worlds.processes import ProcessWorld

    if backend == "sim" and isolated:
        from harness.worlds.simulated.isolated import IsolatedWorld

        return IsolatedWorld(beside if isinstance(beside, ProcessWorld) else None)
    if backend == "sim":
        from harness.worlds.simulated.world import SimulatedWorld

        simulated: World = SimulatedWorld()
        return simulated
    if backend not in BACKENDS:
        raise WorldError(f"unknown backend {backend!r}; use one of sim, {', '.join(BACKENDS)}")
    world = ProcessWorld(BACKENDS[backend])
    world.start()
    return world
