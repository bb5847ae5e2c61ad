"""What `--profile` prints: where each rank's time went, and the bubble, measured and planned."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.actions import Kind
from pipeline.executor import StepProfile
from pipeline.plan import Plan
from pipeline.plan_timing import with_defaults
from pipeline.timing import UNIT, simulate


@dataclass(frozen=True)
class RankProfile:
    """One rank's time over the measured steps, in seconds."""

    step: StepProfile
    wall: float


def render_profile(plan: Plan, ranks: Sequence[RankProfile]) -> str:
    """Print shares of each rank's own step time, then the pipeline's bubble.

    The measured bubble is what of all ranks' step time was not compute: waiting, and the work of
    moving data and of Python. The planned one has every F and B cost 1, or F and each part of a
    backward where that is split, and messages nothing.
    """
    lines = [f"{plan.schedule}  world={plan.world}  chunks={plan.chunks}"]
    lines.append("rank  compute  waiting  in flight (peak)")
    for rank, profile in enumerate(ranks):
        compute, waiting = profile.step.compute / profile.wall, profile.step.waiting / profile.wall
        peak = profile.step.peak_in_flight
        lines.append(f"{rank:4}  {compute:7.1%}  {waiting:7.1%}  {peak:9}")
    wall = sum(profile.wall for profile in ranks)
    idle = 1 - sum(profile.step.compute for profile in ranks) / wall
    is_split = not plan.coded.kinds.isdisjoint((Kind.I, Kind.W))
    costs, told = (with_defaults({}), "F = I = W = 1, B = 2") if is_split else (UNIT, "F = B = 1")
    timing = simulate(plan, costs)
    lines.append(f"bubble measured  {idle:.4f} of all ranks' step time is not compute")
    lines.append(
        f"bubble planned   {timing.bubble:.4f} of all ranks' time, at {told}: "
        f"makespan {timing.makespan:g}, idle {max(timing.idle):g} per rank"
    )
    return "\n".join(lines)
