"""What a plan costs: its makespan, where it idles, what it keeps, and when each action runs."""

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.actions import Kind
from pipeline.plan import Plan, peak_in_flight
from pipeline.timing import simulate


@dataclass(frozen=True)
class PlanTiming:
    """A plan's timeline and memory. All times are in the unit of the costs."""

    makespan: float
    """From the first start to the last end."""
    idle: tuple[float, ...]
    """Per rank: makespan less its compute, start and end included."""
    peak_in_flight: tuple[int, ...]
    """Per rank: the most stage-chunks whose forward is done, backward (of a split one, W) not."""
    start: tuple[tuple[tuple[float, float], ...], ...]
    """Per rank, per action of its row `plan.rows[rank]`: (start, end)."""


def plan_timing(plan: Plan, costs: Mapping[Kind, float]) -> PlanTiming:
    """Run a compute-only plan on a clock, each action as soon as its rank and its inputs are there.

    `costs` is what a kind takes on one stage. Left out, F, I and W cost 1, B what I and W do
    together, and an overlapped pair what its F and B do. Messages take no time. Linear in the
    plan's length. PlanError for a plan that cannot run, ValueError for one with sends.
    """
    filled = with_defaults(costs)
    timing = simulate(plan, filled)
    spans = tuple(
        tuple(
            (start, start + filled[action.kind]) for start, action in zip(starts, row, strict=True)
        )
        for starts, row in zip(timing.starts, plan.rows, strict=True)
    )
    return PlanTiming(timing.makespan, timing.idle, peak_in_flight(plan), spans)


def with_defaults(costs: Mapping[Kind, float]) -> dict[Kind, float]:
    """Fill in what `plan_timing` assumes of the kinds that are left out."""
    filled = {Kind.F: 1.0, Kind.I: 1.0, Kind.W: 1.0, **costs}
    filled.setdefault(Kind.B, filled[Kind.I] + filled[Kind.W])
    filled.setdefault(Kind.OVERLAP_F_B, filled[Kind.F] + filled[Kind.B])
    return filled
