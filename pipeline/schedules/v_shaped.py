"""Two stages a rank in a V: ZB-V, and V-Half and V-Min, which keep less.

With stage s and stage 2p-1-s on one rank a microbatch comes back to where it went out, and its
backward starts on the rank that holds its loss and its input.

ZB-V: arXiv 2401.10241, section 6 and figure 8. Row by row it is torch's ScheduleZBVZeroBubble.

V-Half and V-Min: "Pipeline Parallelism with Controllable Memory", arXiv 2405.15362, section 4.
One microbatch is laid out as a *building block*, the times of its four passes on each rank; the
block is *repeated* every 6 units (F, I and W of two stages) without two passes meeting; the W go
to the units that are left; and *squeezing* drops the idle units, which a plan has none of. The
paper's last step, *reordering*, pulls passes of warmup and cooldown forward where memory allows;
it is given in words, and the authors' code does it by a greedy search. The reordering here is a
greedy one as well, of its own: tables of theirs are not reproduced action by action, and idle
time is not promised. What tests show: the peak is the block's, reordering never adds to it, and
never to the makespan at equal costs.
"""

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate

from pipeline.actions import Action, Kind
from pipeline.dependencies import Result, needs, result
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
    yield from _reordered(half_block, world, chunks)[rank]


def v_min(rank: int, world: int, chunks: int) -> Iterator[Action]:
    """Yield a rank's actions; its peak is about a third of 1F1B's first rank's."""
    yield from _reordered(min_block, world, chunks)[rank]


Block = Callable[[int, int], tuple[int, int, int, int]]
"""(rank, world) → when a rank does F on the way out, F back, I out and I back of microbatch 0."""
PERIOD = 6


def half_block(rank: int, world: int) -> tuple[int, int, int, int]:
    """Go out at half speed and back at full, in both passes; a gap keeps passes from meeting."""
    back = 3 * world + (3 if world % 2 == 0 else 0)
    return 2 * rank, 3 * world - rank - 2, back + 2 * rank - 1, back + 3 * world - rank - 2


def min_block(rank: int, world: int) -> tuple[int, int, int, int]:
    """Go out and back at full speed in both passes; a gap keeps passes from meeting."""
    back = 2 * world + (2 if world % 3 == 0 else 0)
    return rank, 2 * world - rank - 1, back + rank, back + 2 * world - rank - 1


def repeated(block: Block, rank: int, world: int, chunks: int) -> Iterator[Action]:
    """Repeat a building block for every microbatch, W in the first units that are left."""
    out, back = rank, 2 * world - 1 - rank
    passes = ((out, Kind.F), (back, Kind.F), (back, Kind.I), (out, Kind.I))
    at = {
        start + PERIOD * microbatch: Action(stage, kind, microbatch)
        for start, (stage, kind) in zip(block(rank, world), passes, strict=True)
        for microbatch in range(chunks)
    }
    assert len(at) == 4 * chunks, "two passes of a building block meet"
    owed: deque[Action] = deque()
    for time in range(max(at) + 1):
        if action := at.get(time):
            yield action
            if action.kind is Kind.I:
                owed.append(Action(action.stage, Kind.W, action.microbatch))
        elif owed:
            yield owed.popleft()
    yield from owed


@lru_cache(maxsize=32)
def _reordered(block: Block, world: int, chunks: int) -> tuple[tuple[Action, ...], ...]:
    """Run the repeated blocks on a clock, where a rank that would wait does what comes later.

    It does the first action of its row whose inputs are there. A forward is pulled before others
    only if the rank then never keeps more than the whole pipeline did before.
    """
    rows = [list(repeated(block, rank, world, chunks)) for rank in range(world)]
    most = max(max(_kept(row)) for row in rows)
    done: set[Result] = set()
    out: list[list[Action]] = [[] for _ in rows]
    kept = [0] * world
    placement = v_shaped(world)
    while any(rows):
        chosen = [
            (rank, place)
            for rank, row in enumerate(rows)
            if (place := _first_ready(row, placement, done, most - kept[rank])) is not None
        ]
        assert chosen, "a building block that cannot go on"
        made: list[Result] = []
        for rank, place in chosen:
            action = rows[rank].pop(place)
            kept[rank] += _KEPT[action.kind]
            out[rank].append(action)
            made.append(result(action))
        done.update(made)
    return tuple(map(tuple, out))


_KEPT = {Kind.F: +1, Kind.I: 0, Kind.W: -1}
_KINDS = 6  # F, I and W of two stages: of each only the next microbatch is ready


def _kept(row: Iterable[Action]) -> Iterator[int]:
    return accumulate(_KEPT[action.kind] for action in row)


def _first_ready(
    row: list[Action], placement: Sequence[int], done: Container[Result], room: int
) -> int | None:
    """Find the first action of a row that can be done now, with `room` for so many more kept."""
    seen: set[tuple[int, Kind]] = set()
    now = most = 0
    for place, action in enumerate(row):
        if (action.stage, action.kind) not in seen:
            seen.add((action.stage, action.kind))
            fits = action.kind is not Kind.F or max(now, most) < room
            if fits and all(need in done for need in needs(action, placement, lowered=False)):
                return place
            if len(seen) == _KINDS:
                break
        now += _KEPT[action.kind]
        most = max(most, now)
    return None


def _idle_v(world: int, chunks: int, cost: Costs) -> float | None:
    """Give what is left at start and end: section 6 has none between, at equal costs."""
    if chunks < 2 * world - 1 or not cost[Kind.F] == cost[Kind.I] == cost[Kind.W]:
        return None
    return (world - 1) * cost[Kind.F]


def _nothing_promised(world: int, chunks: int, cost: Costs) -> float | None:
    return None


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
    in_flight_bound=lambda rank, world, chunks: 2 * min(chunks, world // 2 + 1),
    idle=_nothing_promised,
    placement=v_shaped,
    splits_backward=True,
)
V_MIN = Schedule(
    name="v-min",
    generate=v_min,
    source="Controllable Memory, arXiv 2405.15362, section 4",
    in_flight_bound=lambda rank, world, chunks: 2 * min(chunks, (world + 4) // 3),
    idle=_nothing_promised,
    placement=v_shaped,
    splits_backward=True,
)
