"""Two stages a rank in a V: ZB-V, and V-Half and V-Min, which keep less.

With stage s and stage 2p-1-s on one rank a microbatch comes back to where it went out, and its
backward starts on the rank that holds its loss and its input.

ZB-V: arXiv 2401.10241, section 6 and figure 8. Row by row it is torch's ScheduleZBVZeroBubble.

V-Half and V-Min: "Pipeline Parallelism with Controllable Memory", arXiv 2405.15362, section 4, by
:mod:`pipeline.schedules.building_block`. The authors state, in microbatches of a whole rank, peaks
of (p + 2) // 2 and (p + 4) // 3 and, for F = I = W, bubbles of about p/2m and 2p/3m, m being the
microbatches (the table beside their code, huggingface.co/spaces/sail). The peaks are theirs, and
so is the idle time that their code comes to (github.com/sail-sg/zero-bubble-pipeline-parallelism,
zbv_greedy); how the passes of warmup and cooldown are ordered is not.
"""

from collections.abc import Iterator

from pipeline.actions import Action, Kind
from pipeline.schedules.building_block import Block, reordered
from pipeline.schedules.schedule import Costs, Schedule, v_shaped


def zb_v(rank: int, world: int, chunks: int) -> Iterator[Action]:
    """Yield the order for as many microbatches as fill the pipeline, less those too many."""
    for action in _zb_v(rank, world, max(chunks, 2 * world - 1)):
        if action.microbatch < chunks:
            yield action


def _zb_v(rank: int, world: int, chunks: int) -> Iterator[Action]:
    down, up = _Stage(rank), _Stage(2 * world - 1 - rank)
    for _ in range(2 * (world - rank) - 1):
        yield down.next(Kind.F)
    for _ in range(rank):
        yield up.next(Kind.F)
        yield down.next(Kind.F)
    for _ in range(world - rank):
        yield up.next(Kind.F)
        yield from up.backward()
    while up.done(Kind.F) < chunks:
        if down.done(Kind.F) < chunks:
            yield down.next(Kind.F)
        yield from down.backward()
        yield up.next(Kind.F)
        yield from up.backward()
    for _ in range(rank):
        yield down.next(Kind.I)
        yield up.next(Kind.I)
    for _ in range(world - rank):
        yield down.next(Kind.I)
        yield down.next(Kind.W)
    for stage in (up, down):
        while stage.done(Kind.W) < chunks:
            yield stage.next(Kind.W)


class _Stage:
    """Hands out a stage's actions, those of each kind in order of microbatches."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._done = {Kind.F: 0, Kind.I: 0, Kind.W: 0}

    def done(self, kind: Kind) -> int:
        return self._done[kind]

    def next(self, kind: Kind) -> Action:
        self._done[kind] += 1
        return Action(self._index, kind, self._done[kind] - 1)

    def backward(self) -> Iterator[Action]:
        yield self.next(Kind.I)
        yield self.next(Kind.W)


def v_half(rank: int, world: int, chunks: int) -> Iterator[Action]:
    """Yield a rank's actions; its peak is about half of 1F1B's first rank's."""
    yield from _from_block(half_block, rank, world, chunks)


def v_min(rank: int, world: int, chunks: int) -> Iterator[Action]:
    """Yield a rank's actions; its peak is about a third of 1F1B's first rank's."""
    yield from _from_block(min_block, rank, world, chunks)


def _from_block(block: Block, rank: int, world: int, chunks: int) -> Iterator[Action]:
    out, back = _Stage(rank), _Stage(2 * world - 1 - rank)
    for goes_out, kind in reordered(block, world, chunks)[rank]:
        yield (out if goes_out else back).next(kind)


def half_block(rank: int, world: int) -> tuple[int, int, int, int]:
    """Go out at half speed and back at full, in both passes; a gap keeps passes from meeting."""
    back = 3 * world + (3 if world % 2 == 0 else 0)
    return 2 * rank, 3 * world - rank - 2, back + 2 * rank - 1, back + 3 * world - rank - 2


def min_block(rank: int, world: int) -> tuple[int, int, int, int]:
    """Go out and back at full speed in both passes; a gap keeps passes from meeting."""
    back = 2 * world + (2 if world % 3 == 0 else 0)
    return rank, 2 * world - rank - 1, back + rank, back + 2 * world - rank - 1


def _idle_v(world: int, chunks: int, cost: Costs) -> float | None:
    """Give what is left at start and end: section 6 has none between, at equal costs."""
    if chunks < 2 * world - 1 or not cost[Kind.F] == cost[Kind.I] == cost[Kind.W]:
        return None
    return (world - 1) * cost[Kind.F]


def _idle_half(world: int, chunks: int, cost: Costs) -> float | None:
    """Give 6 units (a microbatch on one rank) for every two ranks, less one: below p/2m of all."""
    if chunks < world or not cost[Kind.F] == cost[Kind.I] == cost[Kind.W]:
        return None
    units = world - 1 if world < 3 else 6 * ((world - 1) // 2) - 1
    return units * cost[Kind.F]


def _idle_min(world: int, chunks: int, cost: Costs) -> float | None:
    """Give 4 units for every rank, less what the gap between the passes leaves or fills."""
    if chunks < max(3, world) or not cost[Kind.F] == cost[Kind.I] == cost[Kind.W]:
        return None
    units = 0 if world == 1 else 4 * world - (7, 5, 6)[world % 3]
    return units * cost[Kind.F]


ZB_V = Schedule(
    name="zbv",
    generate=zb_v,
    source="Zero Bubble, arXiv 2401.10241, section 6",
    in_flight_bound=lambda rank, world, chunks: 2 * min(chunks, world),
    idle=_idle_v,
    placement=v_shaped,
    splits_backward=True,
)
V_HALF = Schedule(
    name="v-half",
    generate=v_half,
    source="Controllable Memory, arXiv 2405.15362, section 4",
    in_flight_bound=lambda rank, world, chunks: 2 * min(chunks, (world + 2) // 2),
    idle=_idle_half,
    placement=v_shaped,
    splits_backward=True,
)
V_MIN = Schedule(
    name="v-min",
    generate=v_min,
    source="Controllable Memory, arXiv 2405.15362, section 4",
    in_flight_bound=lambda rank, world, chunks: 2 * min(chunks, (world + 4) // 3),
    idle=_idle_min,
    placement=v_shaped,
    splits_backward=True,
)
