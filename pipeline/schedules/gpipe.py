"""GPipe: all forwards, then all backwards (arXiv 1811.06965)."""

from collections.abc import Iterator

from pipeline.actions import Action, Kind


def gpipe(rank: int, world: int, chunks: int) -> Iterator[Action]:
    """Yield every forward, then every backward, both in order of microbatches."""
    for microbatch in range(chunks):
        yield Action(rank, Kind.F, microbatch)
    for microbatch in range(chunks):
        yield Action(rank, Kind.B, microbatch)
