"""What each action of a plan needs and makes, as places in one table of results.

The numbers behind :func:`pipeline.dependencies.needs`: the same rules, worked out once for each
kind and stage, so that going through millions of actions takes an addition for each need.
"""

from array import array
from collections.abc import MutableSequence
from typing import TYPE_CHECKING, Any

from pipeline.coded import (
    BACKWARDS,
    FORWARD,
    FULL,
    INPUT,
    KINDS,
    PAIR,
    SEND_B,
    SEND_F,
    WEIGHT,
    Row,
)
from pipeline.dependencies import Result, is_next

if TYPE_CHECKING:
    from pipeline.plan import Plan

_MADE = (FORWARD, FULL, SEND_F, SEND_B)  # the kinds of results that something needs
_SPARSE = 64  # a table of more cells for each action is kept as a dictionary


class _Sparse(dict[int, Any]):
    """A table of which little is used: an invalid plan can name any stage and microbatch."""

    def __init__(self, default: Any) -> None:
        super().__init__()
        self._default = default

    def __missing__(self, key: int) -> Any:
        return self._default


class Flow:
    """Where the results of one plan's actions are in a table, and which of them each needs.

    The place of an action is that of its F; `first[kind][stage]` and `second[kind][stage]` are
    how far from it the results are that it needs (None: it needs no such), `made[kind]` how far
    the one that it makes. A stage that is out of range has only its own results.
    """

    def __init__(self, plan: "Plan") -> None:
        coded, placement = plan.coded, plan.placement
        spans = [row.span() for row in coded.rows]
        self.low = min(0, *(span[0] for span in spans))
        high = max(len(placement) - 1, *(span[1] for span in spans))
        self._least = min(0, *(span[2] for span in spans))
        most = max(plan.chunks - 1, *(span[3] for span in spans))
        self.width = most - self._least + 1
        count = high - self.low + 1
        self.cells = count * self.width
        self.offset = self.low * self.width + self._least
        """What is subtracted from stage * width + microbatch for an action's place."""
        self._is_sparse = self.cells > _SPARSE * (coded.size + 1024)
        # Negative stages are at the end of a list, where their negative index finds them.
        stages = [*range(high + 1), *range(self.low, 0)]
        self._wire(plan, stages)

    def _wire(self, plan: "Plan", stages: list[int]) -> None:
        placement, lowered = plan.placement, plan.is_lowered
        made_at = {kind: number * self.cells for number, kind in enumerate(_MADE)}
        made_at[INPUT] = made_at[FULL]
        self.made = [made_at.get(number, -1) for number in range(len(KINDS))]
        self.tables = 4 if lowered else 2
        nothing: list[int | None] = [None] * len(stages)
        self.first, self.second = [[nothing] * len(KINDS) for _ in range(2)]

        def other_rank(stage: int, other: int) -> int | None:
            """Return the rank of a stage that data goes to or comes from; None if none does."""
            return placement[other] if is_next(stage, other, placement, plan.directions) else None

        def from_beside(step: int, kind: int, send: int) -> list[int | None]:
            found = list(nothing)
            for place, stage in enumerate(stages):
                if (rank := other_rank(stage, stage + step)) is not None:
                    crosses = rank != placement[stage]
                    table = made_at[send if lowered and crosses else kind]
                    found[place] = table + step * self.width
            return found

        def to_beside(step: int) -> list[int]:
            ranks = [other_rank(stage, stage + step) for stage in stages]
            return [
                -1 if rank is None or rank == placement[stage] else rank
                for stage, rank in zip(stages, ranks, strict=True)
            ]

        own_forward: list[int | None] = [0] * len(stages)
        own_backward: list[int | None] = [made_at[FULL]] * len(stages)
        self.first[FORWARD] = from_beside(-1, FORWARD, SEND_F)
        for kind in BACKWARDS:
            self.first[kind] = own_forward
            self.second[kind] = from_beside(+1, FULL, SEND_B)
        self.first[WEIGHT] = self.first[SEND_B] = own_backward
        self.first[SEND_F] = own_forward
        self.after, self.before = to_beside(+1), to_beside(-1)
        """By stage: the rank of the next one, and of the one before, if that is another; or -1."""

    def table(self, code: str, default: float, tables: int) -> "MutableSequence[Any]":
        """Make a table of numbers (`array`'s code) for so many results of each place."""
        if self._is_sparse:
            return _Sparse(default)  # type: ignore[return-value] # read and written alike
        return array(code, [default]) * (tables * self.cells)

    def place(self, stage: int, microbatch: int) -> int:
        """Return the place of a stage and microbatch."""
        return stage * self.width + microbatch - self.offset

    def result(self, place: int) -> Result:
        """Name the result at a place of the table."""
        table, cell = divmod(place, self.cells)
        stage, microbatch = divmod(cell, self.width)
        return stage + self.low, KINDS[_MADE[table]], microbatch + self._least

    def missing(self, row: Row, at: int, done: "MutableSequence[Any]") -> int:
        """Return the place of the first result that an action needs and is not there; else -1.

        What is there is not negative in `done`.
        """
        kind, stage = row.kinds[at], row.stages[at]
        if kind == PAIR:
            return next((need for need in self.pair_needs(row, at) if done[need] < 0), -1)
        place = stage * self.width + row.microbatches[at] - self.offset
        for how_far in (self.first[kind][stage], self.second[kind][stage]):
            if how_far is not None and done[place + how_far] < 0:
                return place + how_far
        return -1

    def needs(self, row: Row, at: int) -> list[int]:
        """List the places of what an action needs."""
        kind, stage = row.kinds[at], row.stages[at]
        if kind == PAIR:
            return self.pair_needs(row, at)
        place = self.place(stage, row.microbatches[at])
        both = (self.first[kind][stage], self.second[kind][stage])
        return [place + how_far for how_far in both if how_far is not None]

    def pair_needs(self, row: Row, at: int) -> list[int]:
        """List the places of what an overlapped pair needs."""
        stage, back = row.stages[at], row.back_stages[at]
        place = self.place(stage, row.microbatches[at])
        back_place = self.place(back, row.back_microbatches[at])
        needs = [
            (place, self.first[FORWARD][stage]),
            (back_place, self.first[FULL][back]),
            (back_place, self.second[FULL][back]),
        ]
        return [place + how_far for place, how_far in needs if how_far is not None]

    def made_by(self, row: Row, at: int) -> tuple[int, ...]:
        """List the places of what an action makes."""
        kind = row.kinds[at]
        place = self.place(row.stages[at], row.microbatches[at])
        if kind == PAIR:
            back = self.place(row.back_stages[at], row.back_microbatches[at])
            return place, back + self.made[FULL]
        return (place + self.made[kind],) if self.made[kind] >= 0 else ()
