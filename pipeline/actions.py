"""One step of a rank's work, in the notation of torch's pipeline IR: `2F0`, `2SEND_F0`."""

import re
from collections.abc import Iterable, Iterator
from contextvars import ContextVar, Token
from dataclasses import dataclass, field, replace
from enum import Enum
from types import TracebackType
from typing import Self


class Kind(Enum):
    """What an action does; the value is how it prints."""

    is_compute: bool
    """Whether it works on a stage."""
    is_send: bool
    """Whether it gives an activation or a gradient away."""
    is_receive: bool
    """Whether it takes an activation or a gradient in."""
    is_comm: bool
    """Whether it is one end of a message."""

    F = "F"
    """Forward."""
    B = "B"
    """Full backward: the input's gradient and the weights'."""
    I = "I"  # noqa: E741 - the literature's name for it
    """Backward for the input's gradient only."""
    W = "W"
    """Backward for the weights' gradients only, after its I."""
    OVERLAP_F_B = "OVERLAP_F_B"
    """A forward and another microbatch's full backward at once: `(2F0;1B3)OVERLAP_F_B`."""
    SEND_F = "SEND_F"
    RECV_F = "RECV_F"
    SEND_B = "SEND_B"
    RECV_B = "RECV_B"

    def __init__(self, text: str) -> None:
        self.is_send = text.startswith("SEND")
        self.is_receive = text.startswith("RECV")
        self.is_comm = self.is_send or self.is_receive
        self.is_compute = not self.is_comm

    __hash__ = object.__hash__  # a member is itself alone, and asked for at every message


_SIMPLE = [kind for kind in Kind if kind is not Kind.OVERLAP_F_B]
_FORM = re.compile(
    rf"(\d{{1,10}})({'|'.join(kind.value for kind in _SIMPLE)})(\d{{1,10}})", re.ASCII
)
_PAIR = re.compile(r"\(([^;()]+);([^;()]+)\)OVERLAP_F_B", re.ASCII)

_UPKEEP = re.compile(r"\d+(?:UNSHARD|RESHARD|REDUCE_GRAD)", re.ASCII)

# From one end of a message to the other: the kind there, and how far away its stage is.
_OTHER_END = {
    Kind.SEND_F: (Kind.RECV_F, +1),
    Kind.RECV_F: (Kind.SEND_F, -1),
    Kind.SEND_B: (Kind.RECV_B, -1),
    Kind.RECV_B: (Kind.SEND_B, +1),
}


@dataclass(frozen=True, slots=True)
class Origin:
    """The line of source that an action came from."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class Action:
    """A kind of work on one stage for one microbatch. Equality ignores where it came from.

    An overlapped pair has none of its own: as in torch its stage is -1, and so is its microbatch.
    What it does is in its `parts`.
    """

    stage: int
    kind: Kind
    microbatch: int
    origin: Origin | None = field(default=None, compare=False, repr=False)
    overlapped: tuple["Action", ...] = ()
    """Of a pair its F and its B, made by `overlap`; of anything else nothing."""

    def __str__(self) -> str:
        if self.overlapped:
            return f"({';'.join(map(str, self.overlapped))}){self.kind.value}"
        return f"{self.stage}{self.kind.value}{self.microbatch}"

    @classmethod
    def overlap(cls, forward: Self, backward: Self, origin: Origin | None = None) -> Self:
        """Pair a forward with a full backward, done at once; ValueError for other kinds."""
        if (forward.kind, backward.kind) != (Kind.F, Kind.B):
            raise ValueError(f"an overlapped pair is an F and a B: got {forward} and {backward}")
        return cls(-1, Kind.OVERLAP_F_B, -1, origin, (forward, backward))

    @property
    def parts(self) -> "tuple[Action, ...]":
        """The F and B of an overlapped pair, in this order; of anything else the action itself."""
        return self.overlapped or (self,)

    def at(self, origin: Origin) -> "Action":
        """Return it with the line that it came from."""
        parts = tuple(part.at(origin) for part in self.overlapped)
        return replace(self, origin=origin, overlapped=parts)

    @classmethod
    def parse(cls, text: str, origin: Origin | None = None) -> Self:
        """Read what `str` prints; ValueError for anything else."""
        if pair := _PAIR.fullmatch(text.strip()):
            forward, backward = (cls.parse(part, origin) for part in pair.groups())
            return cls.overlap(forward, backward, origin)
        match = _FORM.fullmatch(text.strip())
        if match is None:
            kinds = " ".join(kind.value for kind in _SIMPLE)
            raise ValueError(
                f"not an action: {text!r}; an action is <stage><kind><microbatch>, such as 2F0 "
                f"or 2SEND_F0, with kind one of {kinds}, or a pair such as (2F0;1B3)OVERLAP_F_B"
            )
        stage, kind, microbatch = match.groups()
        return cls(int(stage), Kind(kind), int(microbatch), origin)

    @classmethod
    def parse_torchs(cls, text: str, origin: Origin | None = None) -> Self | None:
        """Read what torch prints; None for what only concerns how it keeps parameters.

        That is UNSHARD and RESHARD, which gather and free the parameters of an FSDP module, and
        REDUCE_GRAD, which divides a stage's gradients by the number of microbatches when all are
        there (and has FSDP reduce them): here each loss is weighted as it is made.
        """
        return None if _UPKEEP.fullmatch(text.strip()) else cls.parse(text, origin)

    @property
    def other_end(self) -> "Action":
        """Return the receive that a send needs, or the send that a receive needs."""
        kind, distance = _OTHER_END[self.kind]
        return Action(self.stage + distance, kind, self.microbatch, self.origin)


def with_reductions(actions: Iterable[Action]) -> Iterator[Action | str]:
    """Give a rank's actions, and REDUCE_GRAD after the last of each stage's backwards.

    Of a split backward that is W. A string, because it is no action here.
    """
    row = list(actions)
    last = {
        part.stage: place
        for place, action in enumerate(row)
        for part in action.parts
        if part.kind in (Kind.B, Kind.W)
    }
    for place, action in enumerate(row):
        yield action
        for part in action.parts:
            if last.get(part.stage) == place and part.kind in (Kind.B, Kind.W):
                yield f"{part.stage}REDUCE_GRAD"


CURRENT: ContextVar[Action | None] = ContextVar("CURRENT", default=None)
"""The action being executed on this thread: what a recorder labels a communication with."""


def carry(tensor: object, action: Action) -> None:
    """Let a tensor carry the action that sends it or receives into it, whoever posts that."""
    tensor._pipeline_action = action  # type: ignore[attr-defined]


def carried(tensor: object) -> Action | None:
    """Return the action that a tensor carries."""
    return getattr(tensor, "_pipeline_action", None)


class doing:  # noqa: N801 - it is used as a function, and made for every message
    """Make `action` the current one; an exception from within is given a note that names it."""

    __slots__ = ("_action", "_token")
    _token: Token[Action | None]

    def __init__(self, action: Action) -> None:
        self._action = action

    def __enter__(self) -> None:
        self._token = CURRENT.set(self._action)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception) and not getattr(error, "__notes__", None):
            error.add_note(f"in {CURRENT.get()}")
        CURRENT.reset(self._token)
