"""GPipe: all forwards, then all backwards (arXiv 1811.06965)."""

from collections.abc import Iterator

from pipeline.actions import Action, Kind
from pipeline.schedules.schedule import Schedule


def gpipe(rank: int, world: int, chunks: int) -> Iterator[Action]:
    """Yield every forward, then every backward, both in order of microbatches."""
    for microbatch in range(chunks):
        yield Action(rank, Kind.F, microbatch)
    for microbatch in range(chunks):
        yield Action(rank, Kind.B, microbatch)


GPIPE = Schedule(
    name="gpipe",
    generate=gpipe,
    source="GPipe, arXiv 1811.06965, section 2.3",
    in_flight_bound=lambda rank, world, chunks: chunks,
    idle=lambda world, chunks, cost: (world - 1) * (cost[Kind.F] + cost[Kind.B]),
)
