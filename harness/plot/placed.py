"""A plan put in time: when each action starts and ends, and what it waited for."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from harness.timeline import Bubble, Costs
from pipeline.actions import Action, Kind
from pipeline.dependencies import Result, results, run_order
from pipeline.plan import Plan, PlanError, peak_in_flight
from pipeline.plan_timing import plan_timing, with_defaults
from pipeline.problems import Problem, find_problems

Step = tuple[int, int]
"""Where an action stands: (rank, place in its row)."""
Span = tuple[float, float]
"""(start, end), in the unit of the costs."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A plan in time. Of an invalid one what runs: `spans[rank]` may be shorter than its row."""

    plan: Plan
    costs: Costs
    spans: tuple[tuple[Span, ...], ...]
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
        return self.plan.rows[rank][at]

    def running(self, rank: int) -> Iterator[tuple[Action, Span]]:
        """Yield what a rank does, in order, with its time."""
        return zip(self.plan.rows[rank], self.spans[rank], strict=False)

    def wrong(self) -> set[Action]:
        """Return the actions that have a problem, those that are missing among them."""
        return {problem.action for problem in self.problems}


def place(plan: Plan, costs: Costs) -> Placed:
    """Start every action as soon as its rank and its inputs are there; messages take no time.

    A plan with sends and receives starts a compute once its data has been sent. Of an invalid
    plan each rank runs up to the first action that can never start. Linear in the plan's length.
    """
    cost = kind_costs(costs)
    problems, spans = _timed(plan, cost)
    stuck: dict[int, Action] = {}
    if spans is None:
        spans, stuck = _walk(plan, cost)
    makespan = max((end for row in spans for _, end in row), default=0.0)
    ran = replace(plan, rows=tuple(row[: len(s)] for row, s in zip(plan.rows, spans, strict=True)))
    idle = (makespan - math.fsum(end - start for start, end in row) for row in spans)
    return Placed(
        plan,
        costs,
        spans,
        makespan,
        tuple(round(each, 9) for each in idle),
        peak_in_flight(ran),
        problems,
        stuck,
    )


def kind_costs(costs: Costs) -> dict[Kind, float]:
    """Return what an action of each kind takes: a send or receive nothing."""
    given = {kind: costs.of(kind.value) for kind in (Kind.F, Kind.B, Kind.I, Kind.W)}
    return with_defaults(given) | {kind: 0.0 for kind in Kind if kind.is_comm}


def _timed(
    plan: Plan, cost: dict[Kind, float]
) -> tuple[tuple[Problem, ...], tuple[tuple[Span, ...], ...] | None]:
    """Return a plan's problems, and of a valid compute-only one when everything runs."""
    if plan.is_lowered:
        return tuple(find_problems(plan)), None
    try:
        return (), plan_timing(plan, cost).start
    except PlanError as error:
        return error.problems, None


def needs_of(plan: Plan, action: Action) -> list[Result]:
    """List what an action waits for; of one that is out of range nothing can be said."""
    if all(0 <= part.stage < plan.stages for part in action.parts):
        return plan.needs(action)
    return []


def _walk(
    plan: Plan, cost: dict[Kind, float]
) -> tuple[tuple[tuple[Span, ...], ...], dict[int, Action]]:
    """Return when each action that runs does so, and what each rank that is stuck stops at."""
    order, stuck = run_order(plan.rows, functools.partial(needs_of, plan))
    ends: dict[Result, float] = {}
    spans: list[list[Span]] = [[] for _ in plan.rows]
    for rank, action in order:
        before = spans[rank][-1][1] if spans[rank] else 0.0
        start = max([before, *(ends[need] for need in needs_of(plan, action))])
        spans[rank].append((start, start + cost[action.kind]))
        for result in results(action):
            ends.setdefault(result, start + cost[action.kind])
    return tuple(map(tuple, spans)), {rank: stuck[rank][0] for rank in sorted(stuck)}
