"""Zero bubble on one stage a rank: ZB-H1 and ZB-H2 (arXiv 2401.10241, section 2, figure 3).

Both are 1F1B with the backward split: I goes on at once, since the rank before waits for it, and
W is put off to where the rank would be idle. Each rank puts off as many W as it has fewer warmup
forwards than the first one, so that all hold equally many microbatches. ZB-H1 (which torch and
DualPipe's README call ZB1P) has 1F1B's warmup and its memory; ZB-H2 twice the warmup, after
which no rank is idle between its first and its last action.

Figure 3 shows these orders for 4 stages and 8 microbatches; the paper gives no algorithm. Row by
row, ZB-H1 here is torch's ScheduleInterleavedZeroBubble with one stage a rank.
"""

from collections.abc import Iterator
from functools import partial

from pipeline.actions import Action, Kind
from pipeline.schedules.schedule import Costs, Schedule


def zero_bubble(rank: int, world: int, chunks: int, *, depth: int) -> Iterator[Action]:
    """Yield warmup forwards, then F and I with W once enough are put off, then what is owed.

    `depth` is how many forwards of warmup there are for each stage after this one.
    """
    warmup = min(chunks, depth * (world - 1 - rank))
    put_off = depth * rank
    for microbatch in range(warmup):
        yield Action(rank, Kind.F, microbatch)
    for microbatch in range(chunks):
        if microbatch + warmup < chunks:
            yield Action(rank, Kind.F, microbatch + warmup)
        yield Action(rank, Kind.I, microbatch)
        if microbatch >= put_off:
            yield Action(rank, Kind.W, microbatch - put_off)
    for microbatch in range(max(0, chunks - put_off), chunks):
        yield Action(rank, Kind.W, microbatch)


def _idle_h1(world: int, chunks: int, cost: Costs) -> float | None:
    """Table 2, (p - 1)(F + I - W): true with a full pipeline where W is not the longest."""
    f, of_input, w = cost[Kind.F], cost[Kind.I], cost[Kind.W]
    return (world - 1) * (f + of_input - w) if chunks >= world and w <= min(f, of_input) else None


def _idle_h2(world: int, chunks: int, cost: Costs) -> float | None:
    """Table 2 has (p - 1)(F + I - 2W) between a rank's first and last action, 0 at equal costs.

    What is left is the start and the end, (p - 1)F together. Promised at equal costs alone: at
    others the order of figure 3 is not the best, and the paper's solver finds another.
    """
    if chunks < 2 * world - 1 or not cost[Kind.F] == cost[Kind.I] == cost[Kind.W]:
        return None
    return (world - 1) * cost[Kind.F]


ZB_H1 = Schedule(
    name="zb-h1",
    generate=partial(zero_bubble, depth=1),
    source="Zero Bubble, arXiv 2401.10241, section 2.1, tables 1 and 2",
    in_flight_bound=lambda rank, world, chunks: min(chunks, world),
    idle=_idle_h1,
    splits_backward=True,
)
ZB_H2 = Schedule(
    name="zb-h2",
    generate=partial(zero_bubble, depth=2),
    source="Zero Bubble, arXiv 2401.10241, section 2.2, tables 1 and 2",
    in_flight_bound=lambda rank, world, chunks: min(chunks, 2 * world - 1),
    idle=_idle_h2,
    splits_backward=True,
)
