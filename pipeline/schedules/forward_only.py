"""Forwards and nothing else: inference, or a measure of what the messages cost."""

from collections.abc import Iterator

from pipeline.actions import Action, Kind
from pipeline.schedules.schedule import Schedule


def forward_only(rank: int, world: int, chunks: int) -> Iterator[Action]:
    """Yield every forward, in order of microbatches."""
    for microbatch in range(chunks):
        yield Action(rank, Kind.F, microbatch)


FORWARD_ONLY = Schedule(
    name="forward-only",
    generate=forward_only,
    source="torch's _ScheduleForwardOnly; the formulas are derived",
    # Nothing is kept for a backward, but nothing here says so: what is counted is never done.
    in_flight_bound=lambda rank, world, chunks: chunks,
    idle=lambda world, chunks, cost: (world - 1) * cost[Kind.F],
    forward_only=True,
)
