"""Interleaved 1F1B: several stages a rank, so that warmup passes in smaller steps.

Narayanan et al., arXiv 2104.04473, section 2.2, figure 4; the order is Megatron-LM's and, where
torch accepts the shape, that of torch's ScheduleInterleaved1F1B.
"""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from pipeline.actions import Action, Kind
from pipeline.schedules.schedule import Costs, Schedule, looped


def interleaved(
    rank: int, world: int, chunks: int, *, stages_per_rank: int = 2
) -> Iterator[Action]:
    """Yield warmup forwards, then pairs of one forward and one backward, then the backwards owed.

    Microbatches go in rounds of about `world`: a round passes all stages of a rank, one after
    the other, before the next one starts. The paper has rounds of exactly `world`, and so chunks
    that are a multiple of it; as in torch, rounds here are longer where they do not divide
    evenly, and unlike there they may differ by one microbatch.
    """
    forwards = [
        Action(local * world + rank, Kind.F, microbatch)
        for round_ in rounds(world, chunks)
        for local in range(stages_per_rank)
        for microbatch in round_
    ]
    backwards = [
        Action(local * world + rank, Kind.B, microbatch)
        for round_ in rounds(world, chunks)
        for local in reversed(range(stages_per_rank))
        for microbatch in round_
    ]
    warmup = warmup_of(rank, world, chunks, stages_per_rank)
    yield from forwards[:warmup]
    for forward, backward in zip(forwards[warmup:], backwards, strict=False):
        yield forward
        yield backward
    yield from backwards[len(forwards) - warmup :]


def rounds(world: int, chunks: int) -> list[range]:
    """Cut the microbatches into as many rounds as `world` goes into them, the longest first."""
    count = max(1, chunks // world)
    length, longer = divmod(chunks, count)
    starts = [turn * length + min(turn, longer) for turn in range(count + 1)]
    return [range(*bounds) for bounds in pairwise(starts)]


def warmup_of(rank: int, world: int, chunks: int, stages_per_rank: int) -> int:
    """Return how many forwards a rank does before its first backward has come to it.

    The first round passes all stages but the last, and then it is two for each rank after it.
    """
    first = len(rounds(world, chunks)[0])
    return min((stages_per_rank - 1) * first + 2 * (world - 1 - rank), stages_per_rank * chunks)


def interleaved_with(stages_per_rank: int) -> Schedule:
    """Make the schedule for so many stages on each rank; ValueError for fewer than 1."""
    if stages_per_rank < 1:
        raise ValueError(f"stages_per_rank must be at least 1: got {stages_per_rank}")

    def bound(rank: int, world: int, chunks: int) -> int:
        # The paper's 2(p-r-1) + (v-1)p + 1 where rounds are p long.
        warmup = warmup_of(rank, world, chunks, stages_per_rank)
        return min(warmup + 1, stages_per_rank * chunks)

    return Schedule(
        name="interleaved",
        generate=partial(interleaved, stages_per_rank=stages_per_rank),
        source="Megatron-LM, arXiv 2104.04473, section 2.2",
        in_flight_bound=bound,
        idle=_idle,
        placement=partial(looped, stages_per_rank=stages_per_rank),
    )


def _idle(world: int, chunks: int, cost: Costs) -> float | None:
    """Give the paper's (p - 1)(F + B) / v; costs here are of one stage, so v is in them already.

    With fewer chunks than ranks nothing is promised.
    """
    return (world - 1) * (cost[Kind.F] + cost[Kind.B]) if chunks >= world else None


INTERLEAVED = interleaved_with(2)
