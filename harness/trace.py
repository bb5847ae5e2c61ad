"""What the ranks of one case did: operations, waits, computes, endings.

Every world writes this, every checker reads it. The recorder of a rank emits small tuples
(:mod:`harness.recorder`); :class:`Trace` turns them into objects, rank by rank, in the order
in which that rank did things. Nothing here knows about processes, threads or torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from harness.matching import Matcher


class Site(NamedTuple):
    """A place in the user's source."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


UNKNOWN_SITE = Site("<unknown>", 0, "<unknown>")


TORCHS = "torch's "  # begins the name of what torch posted by itself


class State(Enum):
    """How far an operation has come on the rank that posted it."""

    POSTED = "posted"
    BLOCKED = "blocked"  # its rank is inside a wait for it
    DONE = "done"  # its rank waited for it, and the wait returned
    FAILED = "failed"  # the backend refused it, or the wait raised
    DROPPED = "dropped"  # its handle was garbage-collected, never waited for


_POSTED, _BLOCKED = State.POSTED, State.BLOCKED  # asked for at every event: no attribute of Enum


Splits = bool | tuple[tuple[int, ...], tuple[int, ...]]
"""Whether the ranks' element counts may rightly differ; how many are taken from, and sent to, each
rank of the group, where that is known."""


@dataclass(slots=True, eq=False)
class Op:
    """One communication that a rank posted.

    ``kind`` is ``send``, ``recv`` or the collective's name as ``torch.distributed`` spells it
    (``all_reduce``, ``barrier``, …); ``api`` is the function that the user called (``isend``,
    ``send_object_list``, …). ``peer`` is the other rank's global rank (None for a collective
    and for a receive from any source). ``index`` counts the rank's collectives per group.
    """

    rank: int
    id: int
    kind: str
    api: str
    group: str
    site: Site
    posted_ns: int
    peer: int | None = None
    tag: int = 0
    numel: int = 0
    dtype: str = ""
    shape: tuple[int, ...] = ()
    root: int | None = None
    reduce_op: str | None = None
    index: int | None = None
    batch: int | None = None
    action: str | None = None
    planned: bool = False  # the action is a plan's own; else its number only counts calls
    any_source: bool = False
    splits: Splits = False
    blocking: bool = False  # the call itself waits (send, recv, a collective without async_op)
    state: State = State.POSTED
    wait_site: Site | None = None
    blocked_ns: int | None = None
    ended_ns: int | None = None
    source: int | None = None  # for any_source: who sent it, once known
    overwritten: bool = False  # the buffer changed between post and wait
    touched: Site | None = None  # where the buffer was used between post and wait, if that was seen
    match: Op | None = None
    doubtful: bool = False  # the match is a guess: a receive from any source is in between

    @property
    def is_collective(self) -> bool:
        """Whether all ranks of the group take part."""
        return self.kind not in ("send", "recv")

    @property
    def by_torch(self) -> bool:
        """Whether torch posted it by itself: then how it is waited for is not the user's doing."""
        return self.api.startswith(TORCHS)

    @property
    def at(self) -> Site:
        """Where the user would look: the wait that blocks, else the post."""
        return self.wait_site if self.wait_site is not None else self.site

    @property
    def broken_off(self) -> bool:
        """Whether its rank was inside the wait for it when that raised."""
        return self.state is State.FAILED and self.blocked_ns is not None

    @property
    def pending(self) -> bool:
        """Posted and not known to have ended."""
        state = self.state
        return state is _POSTED or state is _BLOCKED


class Wait(NamedTuple):
    """A rank inside a wait: the operation it cannot go past, and whether it may give up."""

    op: Op
    since_ns: int
    thread: int
    gives_up: bool = False  # the wait itself has a timeout, so the rank may go on by itself
    other_threads: int = 0  # alive besides the waiting one, and able to post


class Compute(NamedTuple):
    """One forward (F) or backward (B, I, W) that a stage executed."""

    rank: int
    stage: int
    kind: str
    microbatch: int
    start_ns: int
    end_ns: int
    site: Site
    requires_grad: bool = True  # of the stage's input, for F: False cuts the graph there


@dataclass(frozen=True, slots=True)
class Group:
    """A process group as its members know it: global ranks in group order."""

    name: str
    ranks: tuple[int, ...]


class Status(Enum):
    """Where a rank is."""

    RUNNING = "running"
    FINISHED = "finished"
    RAISED = "raised"
    DIED = "died"


@dataclass(slots=True)
class RankTrace:
    """All that one rank did."""

    rank: int
    ops: dict[int, Op] = field(default_factory=dict)
    waits: dict[int, Wait] = field(default_factory=dict)  # thread → what it is blocked on
    computes: list[Compute] = field(default_factory=list)
    destroyed: list[tuple[str, int, Site]] = field(default_factory=list)  # group, ns, where
    notes: list[str] = field(default_factory=list)  # what was done to it from outside
    status: Status = Status.RUNNING
    ended_ns: int | None = None
    last_ns: int = 0

    @property
    def blocked(self) -> list[Wait]:
        """What this rank waits for right now."""
        return list(self.waits.values())


@dataclass(slots=True)
class Trace:
    """The history of one case on ``world_size`` ranks."""

    world_size: int
    ranks: list[RankTrace] = field(default_factory=list)
    groups: dict[str, Group] = field(default_factory=dict)
    matcher: Matcher = field(default_factory=lambda: _matcher())
    unproven: str | None = None  # why operations cannot be followed in this world
    opaque: set[str] = field(default_factory=set)  # groups with collectives that were not seen

    def __post_init__(self) -> None:
        if not self.ranks:
            self.ranks = [RankTrace(rank) for rank in range(self.world_size)]

    def operations(self) -> list[Op]:
        """Every operation of every rank, by the clock."""
        ops = [op for rank in self.ranks for op in rank.ops.values()]
        return sorted(ops, key=lambda op: (op.posted_ns, op.rank, op.id))


def _matcher() -> Matcher:
    from harness.matching import Matcher  # matching needs Op, which is defined here

    return Matcher()


class Frame(NamedTuple):
    """One line of a traceback in the user's code."""

    file: str
    line: int
    function: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class RankError:
    """An exception that left a rank, from the user's own frame on.

    ``in_comm`` says that it was raised by a call of ``torch.distributed`` or of
    ``pipeline.comms``; ``refused`` that the call refused its arguments before communicating.
    """

    type: str
    message: str
    frames: tuple[Frame, ...]
    time_ns: int
    in_comm: bool = False
    refused: bool = False
    traceback: str = ""
    details: dict[str, Any] = field(default_factory=dict)
