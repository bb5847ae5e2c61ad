"""A plan put in time: when each action starts and ends, and what it waited for."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from harness.timeline import Bubble, Costs
from pipeline.actions import Action, Kind
from pipeline.coded import KINDS, Row
from pipeline.plan import Plan, peak_of
from pipeline.plan_timing import with_defaults
from pipeline.problems import Problem, find_problems
from pipeline.walk import walk

Step = tuple[int, int]
"""Where an action stands: (rank, place in its row)."""
Span = tuple[float, float]
"""(start, end), in the unit of the costs."""


class Spans(Sequence[Span]):
    """When each action of a row starts and ends: kept as the starts alone."""

    def __init__(self, starts: array[float], row: Row, cost: Sequence[float]) -> None:
        self.starts, self.kinds = starts, row.kinds
        self._cost = cost

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, at: int) -> Span: ...
    @overload
    def __getitem__(self, at: slice) -> list[Span]: ...
    def __getitem__(self, at: int | slice) -> Span | list[Span]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        at = at + len(self) if at < 0 else at
        start = self.starts[at]
        return start, start + self._cost[self.kinds[at]]

    def __iter__(self) -> Iterator[Span]:
        cost = self._cost
        for start, kind in zip(self.starts, self.kinds, strict=False):
            yield start, start + cost[kind]

    @property
    def end(self) -> float:
        """When the last one ends; 0 if there is none."""
        return self[-1][1] if self.starts else 0.0

    @property
    def busy(self) -> float:
        """How long the actions take together."""
        return math.fsum(map(self._cost.__getitem__, self.kinds[: len(self.starts)]))


@dataclass(frozen=True, slots=True)
class Placed:
    """A plan in time. Of an invalid one what runs: `spans[rank]` may be shorter than its row."""

    plan: Plan
    costs: Costs
    spans: tuple[Spans, ...]
    makespan: float
    idle: tuple[float, ...]
    peaks: tuple[int, ...]
    problems: tuple[Problem, ...]
    stuck: dict[int, Action]
    """Rank → the action that it never gets past."""

    @property
    def bubble(self) -> Bubble:
        """How much of the ranks' time is idle."""
        idle, total = math.fsum(self.idle), self.plan.world * self.makespan
        busy = total - idle
        return Bubble(idle / total if total else None, idle / busy if busy else None)

    def action(self, step: Step) -> Action:
        """Return the action at a place."""
        rank, at = step
        return self.plan.action(rank, at)

    def running(self, rank: int) -> Iterator[tuple[Action, Span]]:
        """Yield what a rank does, in order, with its time."""
        return zip(self.plan.actions(rank), self.spans[rank], strict=False)

    def wrong(self) -> set[Action]:
        """Return the actions that have a problem, those that are missing among them."""
        return {problem.action for problem in self.problems}


def place(plan: Plan, costs: Costs) -> Placed:
    """Start every action as soon as its rank and its inputs are there; messages take no time.

    A plan with sends and receives starts a compute once its data has been sent. Of an invalid
    plan each rank runs up to the first action that can never start. Linear in the plan's length.
    """
    by_kind = kind_costs(costs)
    walked = walk(plan, by_kind)
    cost = [by_kind[kind] for kind in KINDS]
    rows = plan.coded.rows
    spans = tuple(Spans(starts, row, cost) for starts, row in zip(walked.starts, rows, strict=True))
    makespan = max(each.end for each in spans)
    return Placed(
        plan,
        costs,
        spans,
        makespan,
        tuple(round(makespan - each.busy, 9) for each in spans),
        tuple(peak_of(row, len(each)) for row, each in zip(rows, spans, strict=True)),
        tuple(find_problems(plan, walked)),
        {rank: plan.action(rank, len(spans[rank])) for rank in walked.stuck},
    )


def kind_costs(costs: Costs) -> dict[Kind, float]:
    """Return what an action of each kind takes: a send or receive nothing."""
    given = {kind: costs.of(kind.value) for kind in (Kind.F, Kind.B, Kind.I, Kind.W)}
    return with_defaults(given) | {kind: 0.0 for kind in Kind if kind.is_comm}
