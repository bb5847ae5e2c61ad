"""No pipelining: one microbatch goes all the way there and back before the next one starts."""

from collections.abc import Iterator

from pipeline.actions import Action, Kind
from pipeline.schedules.schedule import Schedule


def naive(rank: int, world: int, chunks: int) -> Iterator[Action]:
    """Yield forward and backward of one microbatch after the other."""
    for microbatch in range(chunks):
        yield Action(rank, Kind.F, microbatch)
        yield Action(rank, Kind.B, microbatch)


NAIVE = Schedule(
    name="naive",
    generate=naive,
    source="model parallelism without a pipeline; the formulas are derived",
    in_flight_bound=lambda rank, world, chunks: 1,
    idle=lambda world, chunks, cost: chunks * (world - 1) * (cost[Kind.F] + cost[Kind.B]),
)
