"""No pipelining: one microbatch goes all the way there and back before the next one starts."""

from collections.abc import Iterator

from pipeline.actions import Action, Kind


def naive(rank: int, world: int, chunks: int) -> Iterator[Action]:
    """Yield forward and backward of one microbatch after the other."""
    for microbatch in range(chunks):
        yield Action(rank, Kind.F, microbatch)
        yield Action(rank, Kind.B, microbatch)
