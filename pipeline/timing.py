"""When each action of a plan would run, if compute had known costs and messages took no time."""

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.actions import Kind
from pipeline.dependencies import Result, results, run_order
from pipeline.plan import Plan, draw, validate

UNIT = {Kind.F: 1.0, Kind.B: 1.0, Kind.I: 1.0, Kind.W: 1.0}


@dataclass(frozen=True)
class Timing:
    """A plan's timeline. All times are in the unit of the costs."""

    makespan: float
    """From the first start to the last end."""
    idle: tuple[float, ...]
    """Per rank: makespan less its compute."""
    starts: tuple[tuple[float, ...], ...]
    """Per rank, per action of its row."""

    @property
    def bubble(self) -> float:
        """Idle time of all ranks as a fraction of their total time, world × makespan."""
        return sum(self.idle) / (len(self.idle) * self.makespan)


def simulate(plan: Plan, costs: Mapping[Kind, float] = UNIT) -> Timing:
    """Start every action of a compute-only plan as soon as its rank and its inputs are there.

    Linear in the plan's length. PlanError for a plan that cannot run, ValueError for a lowered
    one: what messages cost depends on more than the plan. Kinds not in `costs` cost 1, an
    overlapped pair as much as its F and its B.
    """
    if plan.is_lowered:
        raise ValueError(f"{plan.schedule}: timing is of compute-only plans, this has sends")
    validate(plan)

    costs = {**UNIT, **costs}
    costs.setdefault(Kind.OVERLAP_F_B, costs[Kind.F] + costs[Kind.B])
    ends: dict[Result, float] = {}
    free = [0.0] * plan.world
    starts: list[list[float]] = [[] for _ in plan.rows]
    for rank, action in run_order(plan.rows, plan.needs)[0]:
        start = max([free[rank], *(ends[need] for need in plan.needs(action))])
        free[rank] = start + costs[action.kind]
        ends.update((made, free[rank]) for made in results(action))
        starts[rank].append(start)
    makespan = max(free)
    idle = (makespan - sum(costs[action.kind] for action in row) for row in plan.rows)
    return Timing(makespan, tuple(idle), tuple(map(tuple, starts)))


def timeline(plan: Plan) -> str:
    """Draw a plan against time, every action one step long and idle steps empty."""
    timing = simulate(plan, {Kind.OVERLAP_F_B: 1.0})
    rows = [[""] * int(timing.makespan) for _ in plan.rows]
    for rank, row in enumerate(plan.rows):
        for action, start in zip(row, timing.starts[rank], strict=True):
            rows[rank][int(start)] = str(action)
    return draw(rows)
