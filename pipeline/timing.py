"""When each action of a plan would run, if compute had known costs and messages took no time."""

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.actions import Kind
from pipeline.coded import KINDS
from pipeline.plan import Plan, PlanError, draw
from pipeline.problems import find_problems
from pipeline.walk import Walk, walk

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
    costs = {**UNIT, **costs}
    costs.setdefault(Kind.OVERLAP_F_B, costs[Kind.F] + costs[Kind.B])
    walked = walk_valid(plan, costs)
    makespan = max(walked.free)
    cost = [costs.get(kind, 0.0) for kind in KINDS]
    idle = (makespan - sum(map(cost.__getitem__, row.kinds)) for row in plan.coded.rows)
    return Timing(makespan, tuple(idle), tuple(map(tuple, walked.starts)))


def walk_valid(plan: Plan, costs: Mapping[Kind, float]) -> Walk:
    """Run a compute-only plan on a clock; PlanError and ValueError as in :func:`simulate`."""
    if plan.is_lowered:
        raise ValueError(f"{plan.schedule}: timing is of compute-only plans, this has sends")
    walked = walk(plan, costs)
    if problems := find_problems(plan, walked):
        raise PlanError(plan, problems)
    return walked


def timeline(plan: Plan) -> str:
    """Draw a plan against time, every action one step long and idle steps empty."""
    timing = simulate(plan, {Kind.OVERLAP_F_B: 1.0})
    rows = [[""] * int(timing.makespan) for _ in plan.rows]
    for rank, row in enumerate(plan.rows):
        for action, start in zip(row, timing.starts[rank], strict=True):
            rows[rank][int(start)] = str(action)
    return draw(rows)
