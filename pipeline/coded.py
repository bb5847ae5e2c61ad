"""A plan's rows as numbers: what lets plans of millions of actions fit and be gone through.

An action is an object of a hundred bytes and more; as numbers it takes seventeen. Everything that
looks at a whole plan (validation, timing, lowering, deadlocks) reads these.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pipeline.actions import Action, Kind, Origin

KINDS = (
    Kind.F,
    Kind.B,
    Kind.I,
    Kind.W,
    Kind.SEND_F,
    Kind.RECV_F,
    Kind.SEND_B,
    Kind.RECV_B,
    Kind.OVERLAP_F_B,
)
"""The kinds by their numbers."""
FORWARD, FULL, INPUT, WEIGHT, SEND_F, RECV_F, SEND_B, RECV_B, PAIR = range(len(KINDS))
NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
_TEXTS = [kind.value for kind in KINDS]
COMMS = frozenset((SEND_F, RECV_F, SEND_B, RECV_B))
SENDS = frozenset((SEND_F, SEND_B))
BACKWARDS = frozenset((FULL, INPUT))


@dataclass(slots=True)
class Row:
    """One rank's actions, the same place in each array for one action.

    Of an overlapped pair `stages` and `microbatches` are its forward's. Those of the backward
    are in the two arrays after them, which end with a row's last pair.
    """

    kinds: bytearray = field(default_factory=bytearray)
    stages: "array[int]" = field(default_factory=lambda: array("i"))
    microbatches: "array[int]" = field(default_factory=lambda: array("i"))
    back_stages: "array[int]" = field(default_factory=lambda: array("i"))
    back_microbatches: "array[int]" = field(default_factory=lambda: array("i"))
    origins: "array[int]" = field(default_factory=lambda: array("i"))
    """Where each comes from, as a place in the plan's list of origins; -1 for nowhere."""

    def __len__(self) -> int:
        return len(self.kinds)

    def put(self, kind: int, stage: int, microbatch: int, origin: int) -> None:
        """Append an action that is no pair."""
        self.kinds.append(kind)
        self.stages.append(stage)
        self.microbatches.append(microbatch)
        self.origins.append(origin)

    def put_pair(self, stage: int, microbatch: int, back: tuple[int, int], origin: int) -> None:
        """Append an overlapped pair, `back` being its backward's stage and microbatch."""
        nothing = array("i", [0]) * (len(self.kinds) - len(self.back_stages))
        self.back_stages += nothing
        self.back_microbatches += nothing
        self.kinds.append(PAIR)
        self.stages.append(stage)
        self.microbatches.append(microbatch)
        self.back_stages.append(back[0])
        self.back_microbatches.append(back[1])
        self.origins.append(origin)

    def add(self, action: Action, origin: int) -> None:
        """Append an action; OverflowError for a number of more than 31 bits."""
        if not action.overlapped:
            self.put(NUMBERS[action.kind], action.stage, action.microbatch, origin)
            return
        forward, backward = action.overlapped
        back = (backward.stage, backward.microbatch)
        self.put_pair(forward.stage, forward.microbatch, back, origin)

    def copy_from(self, other: "Row", at: int) -> None:
        """Append an action of another row."""
        kind, origin = other.kinds[at], other.origins[at]
        if kind != PAIR:
            self.put(kind, other.stages[at], other.microbatches[at], origin)
            return
        back = (other.back_stages[at], other.back_microbatches[at])
        self.put_pair(other.stages[at], other.microbatches[at], back, origin)

    def action(self, at: int, origins: Sequence[Origin | None]) -> Action:
        """Return the action at a place."""
        where = self.origins[at]
        origin = origins[where] if 0 <= where < len(origins) else None
        stage, microbatch = self.stages[at], self.microbatches[at]
        if self.kinds[at] != PAIR:
            return Action(stage, KINDS[self.kinds[at]], microbatch, origin)
        forward = Action(stage, Kind.F, microbatch, origin)
        backward = Action(self.back_stages[at], Kind.B, self.back_microbatches[at], origin)
        return Action.overlap(forward, backward, origin)

    def text(self, at: int) -> str:
        """Print the action at a place."""
        kind = self.kinds[at]
        if kind == PAIR:
            return str(self.action(at, ()))
        return f"{self.stages[at]}{_TEXTS[kind]}{self.microbatches[at]}"

    def parts_at(self, at: int) -> tuple[tuple[int, int, int], ...]:
        """Return (kind, stage, microbatch) of one, of an overlapped pair those of its two."""
        kind, stage, microbatch = self.kinds[at], self.stages[at], self.microbatches[at]
        if kind != PAIR:
            return ((kind, stage, microbatch),)
        back = (FULL, self.back_stages[at], self.back_microbatches[at])
        return (FORWARD, stage, microbatch), back

    def parts(self) -> Iterator[tuple[int, int, int]]:
        """Give (kind, stage, microbatch) of all, an overlapped pair as its forward and backward."""
        if not self.back_stages:
            yield from zip(self.kinds, self.stages, self.microbatches, strict=True)
            return
        all_of_it = zip(self.kinds, self.stages, self.microbatches, strict=True)
        for at, part in enumerate(all_of_it):
            if part[0] != PAIR:
                yield part
            else:
                yield from self.parts_at(at)

    def used_stages(self) -> set[int]:
        """Return the stages that there are actions of."""
        pairs = zip(self.kinds, self.back_stages, strict=False)
        return {*self.stages, *(stage for kind, stage in pairs if kind == PAIR)}

    def span(self) -> tuple[int, int, int, int]:
        """Return the lowest and highest stage, and the lowest and highest microbatch."""
        stages, microbatches = self.stages, self.microbatches
        if not stages:
            return 0, 0, 0, 0
        found = (min(stages), max(stages), min(microbatches), max(microbatches))
        if not self.back_stages:
            return found
        backs = (self.back_stages, self.back_microbatches)
        low, high, least, most = found
        return (
            min(low, *backs[0]),
            max(high, *backs[0]),
            min(least, *backs[1]),
            max(most, *backs[1]),
        )


@dataclass(frozen=True, slots=True)
class Coded:
    """All rows of a plan, and the origins that their actions name."""

    rows: tuple[Row, ...]
    origins: tuple[Origin | None, ...] = ()

    def actions(self, rank: int) -> Iterator[Action]:
        """Give a row's actions, each made as it is asked for."""
        row = self.rows[rank]
        return (row.action(at, self.origins) for at in range(len(row)))

    @property
    def kinds(self) -> set[Kind]:
        """The kinds that there are."""
        return {KINDS[kind] for row in self.rows for kind in set(row.kinds)}

    @property
    def size(self) -> int:
        """How many actions there are."""
        return sum(map(len, self.rows))


class Origins:
    """Numbers the lines that actions come from."""

    def __init__(self) -> None:
        self._numbers: dict[Origin, int] = {}

    def number(self, origin: Origin | None) -> int:
        """Return an origin's number; -1 for none."""
        return -1 if origin is None else self._numbers.setdefault(origin, len(self._numbers))

    def listed(self) -> tuple[Origin, ...]:
        """Return the origins in the order of their numbers."""
        return tuple(self._numbers)


def encode(rows: Iterable[Iterable[Action]]) -> Coded:
    """Turn rows of actions into numbers; OverflowError for one of more than 31 bits."""
    origins = Origins()
    coded = []
    for row in rows:
        numbers = Row()
        for action in row:
            numbers.add(action, origins.number(action.origin))
        coded.append(numbers)
    return Coded(tuple(coded), origins.listed())
