"""1F1B: one forward, one backward, once warm (PipeDream-flush, arXiv 2006.09503)."""

from collections.abc import Iterator

from pipeline.actions import Action, Kind
from pipeline.schedules.schedule import Schedule


def one_f_one_b(rank: int, world: int, chunks: int) -> Iterator[Action]:
    """Yield warmup forwards, then pairs of one forward and one backward, then the backwards owed.

    Warmup is as many microbatches as there are stages after this one, or all there are.
    """
    warmup = min(chunks, world - rank - 1)
    for microbatch in range(warmup):
        yield Action(rank, Kind.F, microbatch)
    for microbatch in range(warmup, chunks):
        yield Action(rank, Kind.F, microbatch)
        yield Action(rank, Kind.B, microbatch - warmup)
    for microbatch in range(chunks - warmup, chunks):
        yield Action(rank, Kind.B, microbatch)


ONE_F_ONE_B = Schedule(
    name="1f1b",
    generate=one_f_one_b,
    source="PipeDream-flush, arXiv 2006.09503, section 3.2",
    in_flight_bound=lambda rank, world, chunks: min(chunks, world - rank),
    idle=lambda world, chunks, cost: (world - 1) * (cost[Kind.F] + cost[Kind.B]),
)
