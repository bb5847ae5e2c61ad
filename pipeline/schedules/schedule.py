"""What a schedule is: a generator of one rank's actions, and its promises as data."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pipeline.actions import Action, Kind
from pipeline.placement import Placement, looped, v_shaped

Costs = Mapping[Kind, float]
"""What each kind of compute takes on one stage: F, B, I, W and an overlapped pair."""


__all__ = ["Costs", "Schedule", "accept_all", "looped", "one_each", "v_shaped"]


def one_each(world: int) -> tuple[int, ...]:
    """Place one stage on each rank, in order."""
    return Placement.one_each(world).ranks


def accept_all(world: int, chunks: int) -> str:
    """Refuse no shape."""
    return ""


@dataclass(frozen=True)
class Schedule:
    """A rule that orders a rank's actions, with what its source promises of it."""

    name: str
    generate: Callable[[int, int, int], Iterator[Action]]
    """(rank, world, chunks) → that rank's compute actions, in order."""
    source: str
    """The paper that describes it."""
    in_flight_bound: Callable[[int, int, int], int]
    """(rank, world, chunks) → the most stage-chunks in flight on that rank.

    A stage-chunk is what one stage keeps of one microbatch, from F to B, or to W where the
    backward is split. Of v stages on a rank each is 1/v of what a stage is with one on a rank.
    """
    idle: Callable[[int, int, Costs], float | None]
    """(world, chunks, costs) → idle time per rank, every stage costing the same.

    Start and end are included: it is the makespan less a rank's compute. None where nothing is
    promised for these costs or this shape.
    """
    placement: Callable[[int], tuple[int, ...]] = one_each
    """world → the rank of each stage."""
    refusal: Callable[[int, int], str] = accept_all
    """(world, chunks) → why this shape cannot be, with what can; empty where it can."""
    directions: int = 1
    """How many pipelines run over the ranks; of two, see :class:`pipeline.plan.Plan`."""
    forward_only: bool = False
    """Whether it has no backwards."""
    splits_backward: bool = False
    """Whether I and W are actions of their own."""

    @property
    def runs(self) -> bool:
        """Whether it trains: one without backwards is a plan, to be validated and plotted."""
        return not self.forward_only
