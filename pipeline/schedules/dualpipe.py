"""DualPipe and DualPipeV: two streams of microbatches through each rank, one there, one back.

DualPipe (DeepSeek-V3, arXiv 2412.19437, section 3.2.1, figure 5, and the code beside it,
github.com/deepseek-ai/DualPipe) sends half of the microbatches from the first rank to the last
and half the other way, each rank holding the same slice as its mirror image. DualPipeV is one of
its halves, "cut in half": as many stages on half the ranks, placed in a V, so that a microbatch
comes back through the ranks that it went out by. The steps of both are the same and named as in
that code; phase 0 is the stream that a rank sees first.

How DualPipe's two directions are numbered is told in :class:`pipeline.plan.Plan`: stages
0..p-1 and microbatches 0..m/2-1 go from rank 0 to rank p-1, stages p..2p-1 and the other
microbatches from rank p-1 to rank 0, and stage p+s has the parameters of stage s.

Row by row, DualPipeV is torch's ScheduleDualPipeV.
"""

from collections import deque
from collections.abc import Iterator

from pipeline.actions import Action, Kind
from pipeline.schedules.schedule import Costs, Schedule, v_shaped


def dualpipe_v(rank: int, world: int, chunks: int) -> Iterator[Action]:
    """Yield the eight steps; the phases are the two stages of a rank, on the way out and back."""
    out, back = _Phase(rank), _Phase(2 * world - 1 - rank)
    return _steps(rank, world, chunks, out, back)


def dualpipe(rank: int, world: int, chunks: int) -> Iterator[Action]:
    """Yield the eight steps; the phases are the two directions, the nearer end's first."""
    mirrored = world - 1 - rank
    forth, reverse = _Phase(rank), _Phase(2 * world - 1 - rank, first=chunks // 2)
    phases = (forth, reverse) if rank < mirrored else (reverse, forth)
    return _steps(min(rank, mirrored), world // 2, chunks // 2, *phases)


class _Phase:
    """Hands out one stage's actions, forwards and backwards in order of microbatches."""

    def __init__(self, stage: int, first: int = 0) -> None:
        self._stage = stage
        self._forwards = self._backwards = first

    def forward(self) -> Action:
        self._forwards += 1
        return Action(self._stage, Kind.F, self._forwards - 1)

    def backward(self, kind: Kind = Kind.B) -> Action:
        self._backwards += 1
        return Action(self._stage, kind, self._backwards - 1)


def _steps(rank: int, ranks: int, chunks: int, zero: _Phase, one: _Phase) -> Iterator[Action]:
    after = ranks - 1 - rank
    for _ in range(2 * after):  # step 1: nF0
        yield zero.forward()
    for _ in range(rank + 1):  # step 2: nF0F1
        yield zero.forward()
        yield one.forward()
    for _ in range(after):  # step 3: nB1W1F1, split to send the gradient on at once
        of_input = one.backward(Kind.I)
        yield of_input
        yield _weight(of_input)
        yield one.forward()
    for turn in range(chunks - 2 * ranks + rank + 1):  # step 4, the main one: nF0B1F1B0
        if turn == 0 and after == 0:
            yield zero.forward()  # not overlapped, which leaves less idle time
            yield one.backward()
        else:
            yield Action.overlap(zero.forward(), one.backward())
        yield Action.overlap(one.forward(), zero.backward())
    for _ in range(after):  # step 5: nB1F1B0
        yield one.backward()
        yield Action.overlap(one.forward(), zero.backward())
    yield from _cooldown(rank, after, zero, one)


def _cooldown(rank: int, after: int, zero: _Phase, one: _Phase) -> Iterator[Action]:
    """Yield the backwards left, the second half of them split, and their weights' part last."""
    owed: deque[Action] = deque()
    backwards = [phase for _ in range(rank + 1) for phase in (one, zero)]  # step 6: nB1B0
    for turn, phase in enumerate(backwards):
        if turn <= rank:
            yield phase.backward()
        else:
            of_input = phase.backward(Kind.I)
            owed.append(_weight(of_input))
            yield of_input
    for _ in range(after):  # step 7: nWB0
        yield owed.popleft()
        of_input = zero.backward(Kind.I)
        owed.append(_weight(of_input))
        yield of_input
    yield from owed  # step 8: nW


def _weight(of_input: Action) -> Action:
    return Action(of_input.stage, Kind.W, of_input.microbatch)


def _refuse_v(world: int, chunks: int) -> str:
    if chunks < 2 * world:
        return (
            f"chunks must be at least the {2 * world} stages, 2 on each of {world} ranks: "
            f"got {chunks}"
        )
    return ""


def _refuse(world: int, chunks: int) -> str:
    if world % 2:
        return f"two directions meet in the middle of an even world: got world {world}"
    if chunks % 2 or chunks < 2 * world:
        return (
            f"chunks must be even, half for each direction, and at least {2 * world} "
            f"for world {world}: got {chunks}"
        )
    return ""


def _idle(ranks: int, cost: Costs) -> float | None:
    """Give the README's (p/2 - 1)(F&B + B - 3W) for p/2 ranks to a direction.

    Promised where F and I take the same and W no longer, and a pair as long as its parts: that
    is what the tests show. At other costs idle time is now less than the formula, now more.
    """
    f, of_input, w = cost[Kind.F], cost[Kind.I], cost[Kind.W]
    full, pair = cost[Kind.B], cost[Kind.OVERLAP_F_B]
    if not (f == of_input >= w and full == of_input + w and pair == f + full):
        return None
    return (ranks - 1) * (pair + full - 3 * w)


DUALPIPE = Schedule(
    name="dualpipe",
    generate=dualpipe,
    source="DualPipe, arXiv 2412.19437, section 3.2.1",
    in_flight_bound=lambda rank, world, chunks: world + 1,
    idle=lambda world, chunks, cost: _idle(world // 2, cost),
    placement=v_shaped,
    refusal=_refuse,
    directions=2,
    splits_backward=True,
)
DUALPIPE_V = Schedule(
    name="dualpipev",
    generate=dualpipe_v,
    source="DualPipeV, github.com/deepseek-ai/DualPipe",
    in_flight_bound=lambda rank, world, chunks: 2 * world + 1,
    idle=lambda world, chunks, cost: _idle(world, cost),
    placement=v_shaped,
    refusal=_refuse_v,
    splits_backward=True,
)
