"""Schedules from a building block: repeated, squeezed and reordered (arXiv 2405.15362, section 3).

A *building block* is the times of one microbatch's passes on each rank. It is *repeated* every 6
units (F, I and W of two stages) without two passes meeting, and the W go to the units that are
left. *Squeezing* drops the idle units, which a plan has none of. *Reordering* pulls passes of
warmup and cooldown forward where memory allows; the paper has it in words, and the authors' code
does it by a greedy search over times. The search here is another one, over ranks on a clock:

- A rank does the first pass of its row that is ready, and so fills idle units with what comes
  later.
- F is pulled forward only if there is room left for all F that it overtakes; a rank never keeps
  more than the most that any of them does in the repeated blocks.
- Once a rank has no F of its outward stage left, its W wait for units with nothing else to do:
  what is left is a chain of I through all ranks, which W would only delay.

It comes to an end. Of all that is left, the pass with the earliest time in the repeated blocks has
its inputs. If it is I or W, it is done. If it is F, then either nothing overtook it and its rank
keeps less than in the repeated blocks, or room was left for it.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate

from pipeline.actions import Action, Kind

Block = Callable[[int, int], tuple[int, int, int, int]]
"""(rank, world) → when a rank does F on the way out, F back, I back and I out of microbatch 0.

The stages are placed in a V: `rank` on the way out, `2 * world - 1 - rank` on the way back.
"""
PERIOD = 6

Pass = tuple[bool, Kind]
"""Whether it is on the way out, and what is done."""
PASSES: tuple[Pass, ...] = tuple(
    (out, kind) for kind in (Kind.F, Kind.I, Kind.W) for out in (True, False)
)
_KEPT = {Kind.F: +1, Kind.I: 0, Kind.W: -1}
_NEVER = 1 << 62


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


@lru_cache(maxsize=4)
def reordered(block: Block, world: int, chunks: int) -> tuple[tuple[Pass, ...], ...]:
    """Give each rank's passes in their order; a stage's microbatches come in theirs.

    In time linear in the plan's length.
    """
    rows = [_Row(rank, world, list(repeated(block, rank, world, chunks))) for rank in range(world)]
    most = max(row.peak for row in rows)
    done: dict[Kind, list[int]] = {kind: [0] * 2 * world for kind in _KEPT}
    unfinished = rows
    while unfinished:
        chosen = [
            (row, key) for row in unfinished if (key := row.first_ready(done, most)) is not None
        ]
        assert chosen, "a building block that cannot go on"
        for row, key in chosen:
            stage, kind = row.do(key)
            done[kind][stage] += 1
        unfinished = [row for row in unfinished if not row.finished]
    return tuple(tuple(PASSES[key] for key in row.order) for row in rows)


class _Row:
    """One rank's repeated blocks, and how much of them it has done."""

    def __init__(self, rank: int, world: int, row: Sequence[Action]) -> None:
        self._stages = [rank if out else 2 * world - 1 - rank for out, _ in PASSES]
        self._last = 2 * world - 1
        keys = {(stage, kind): k for k, (stage, (_, kind)) in enumerate(self._pairs())}
        self._places: list[list[int]] = [[] for _ in PASSES]
        self._overtaken: list[list[int]] = [[], []]  # per F, how many F of the other stage precede
        for place, action in enumerate(row):
            key = keys[action.stage, action.kind]
            if action.kind is Kind.F:
                self._overtaken[key].append(len(self._places[1 - key]))
            self._places[key].append(place)
        self.peak = max(accumulate(_KEPT[action.kind] for action in row))
        for places in self._places:
            places.append(_NEVER)
        self._next = [0] * len(PASSES)
        self._heads = [places[0] for places in self._places]
        self._length = len(row)
        self._kept = 0
        self.order = bytearray()

    def _pairs(self) -> Iterator[tuple[int, Pass]]:
        yield from zip(self._stages, PASSES, strict=True)

    @property
    def finished(self) -> bool:
        """Whether all is done."""
        return len(self.order) == self._length

    def first_ready(self, done: dict[Kind, list[int]], most: int) -> int | None:
        """Choose what comes first of what can be done now, with up to `most` kept."""
        put_off = self._heads[0] == _NEVER
        waiting = None
        for key in sorted(range(len(PASSES)), key=self._heads.__getitem__):
            if self._heads[key] == _NEVER:
                break
            if self._is_ready(key, done, most):
                if not (put_off and PASSES[key][1] is Kind.W):
                    return key
                waiting = key if waiting is None else waiting
        return waiting

    def _is_ready(self, key: int, done: dict[Kind, list[int]], most: int) -> bool:
        stage, kind, microbatch = self._stages[key], PASSES[key][1], self._next[key]
        if kind is Kind.F:
            reserved = max(0, self._overtaken[key][microbatch] - self._next[1 - key])
            came = stage == 0 or done[Kind.F][stage - 1] > microbatch
            return came and self._kept + reserved < most
        if kind is Kind.W:
            return done[Kind.I][stage] > microbatch
        came = stage == self._last or done[Kind.I][stage + 1] > microbatch
        return came and done[Kind.F][stage] > microbatch

    def do(self, key: int) -> tuple[int, Kind]:
        """Do the next pass of those like it; return its stage and kind."""
        self._next[key] += 1
        self._heads[key] = self._places[key][self._next[key]]
        kind = PASSES[key][1]
        self._kept += _KEPT[kind]
        self.order.append(key)
        return self._stages[key], kind
