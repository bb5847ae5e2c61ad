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

from pipeline.actions import Kind

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
_OUT_F, _BACK_F, _OUT_I, _BACK_I, _OUT_W, _BACK_W = range(len(PASSES))
_FORWARDS, _WEIGHTS = (_OUT_F, _BACK_F), (_OUT_W, _BACK_W)
_THEN_W = {_OUT_I: _OUT_W, _BACK_I: _BACK_W}
_KEPT = {Kind.F: +1, Kind.I: 0, Kind.W: -1}
_NEVER = 1 << 62


def repeated(block: Block, rank: int, world: int, chunks: int) -> Iterator[int]:
    """Repeat a building block for every microbatch, W in the first units that are left.

    Yields the passes' places in `PASSES`; those alike come in their microbatches' order.
    """
    starts = zip(block(rank, world), (_OUT_F, _BACK_F, _BACK_I, _OUT_I), strict=True)
    at = {start + PERIOD * microbatch: key for start, key in starts for microbatch in range(chunks)}
    assert len(at) == 4 * chunks, "two passes of a building block meet"
    owed: deque[int] = deque()
    for time in range(max(at) + 1):
        key = at.get(time)
        if key is not None:
            yield key
            if key in _THEN_W:
                owed.append(_THEN_W[key])
        elif owed:
            yield owed.popleft()
    yield from owed


@lru_cache(maxsize=4)
def reordered(block: Block, world: int, chunks: int) -> tuple[tuple[Pass, ...], ...]:
    """Give each rank's passes in their order; a stage's microbatches come in theirs.

    In time linear in the plan's length.
    """
    done: dict[Kind, list[int]] = {kind: [0] * 2 * world for kind in _KEPT}
    rows = [
        _Row(rank, world, list(repeated(block, rank, world, chunks)), done) for rank in range(world)
    ]
    most = max(row.peak for row in rows)
    unfinished = rows
    while unfinished:
        chosen = [(row, key) for row in unfinished if (key := row.first_ready(most)) is not None]
        assert chosen, "a building block that cannot go on"
        for row, key in chosen:
            row.do(key)
        unfinished = [row for row in unfinished if not row.finished]
    return tuple(tuple(PASSES[key] for key in row.order) for row in rows)


class _Row:
    """One rank's repeated blocks, and how much of them it has done.

    ``done`` counts each stage's passes by kind, for all ranks: that of a pass is up to its row.
    """

    def __init__(
        self, rank: int, world: int, row: Sequence[int], done: dict[Kind, list[int]]
    ) -> None:
        self._stages = [rank if out else 2 * world - 1 - rank for out, _ in PASSES]
        self._needs = [
            self._before(kind, stage, 2 * world - 1, done)
            for stage, (_, kind) in zip(self._stages, PASSES, strict=True)
        ]
        self._done = done
        self._places: list[list[int]] = [[] for _ in PASSES]
        self._overtaken: list[list[int]] = [[], []]  # per F, how many F of the other stage precede
        for place, key in enumerate(row):
            if key in _FORWARDS:
                self._overtaken[key].append(len(self._places[1 - key]))
            self._places[key].append(place)
        self.peak = max(accumulate(_KEPT[PASSES[key][1]] for key in row))
        for places in self._places:
            places.append(_NEVER)
        self._next = [0] * len(PASSES)
        self._heads = [places[0] for places in self._places]
        self._by_head = sorted(range(len(PASSES)), key=self._heads.__getitem__)
        self._length = len(row)
        self._kept = 0
        self.order = bytearray()

    @staticmethod
    def _before(
        kind: Kind, stage: int, last: int, done: dict[Kind, list[int]]
    ) -> list[tuple[list[int], int]]:
        """Return the counts, and the stages in them, that have to be ahead of a pass."""
        if kind is Kind.F:
            return [(done[Kind.F], stage - 1)] if stage else []
        if kind is Kind.W:
            return [(done[Kind.I], stage)]
        above = [(done[Kind.I], stage + 1)] if stage < last else []
        return [*above, (done[Kind.F], stage)]

    @property
    def finished(self) -> bool:
        """Whether all is done."""
        return len(self.order) == self._length

    def first_ready(self, most: int) -> int | None:
        """Choose what comes first of what can be done now, with up to `most` kept."""
        waiting = None
        for key in self._by_head:
            if self._heads[key] == _NEVER:
                break
            microbatch = self._next[key]
            for counts, stage in self._needs[key]:
                if counts[stage] <= microbatch:
                    break
            else:
                if key in _FORWARDS:
                    reserved = self._overtaken[key][microbatch] - self._next[1 - key]
                    if self._kept + (reserved if reserved > 0 else 0) >= most:
                        continue
                elif key in _WEIGHTS and self._heads[_OUT_F] == _NEVER:
                    waiting = key if waiting is None else waiting
                    continue
                return key
        return waiting

    def do(self, key: int) -> None:
        """Do the next pass of those like it."""
        self._next[key] += 1
        self._heads[key] = self._places[key][self._next[key]]
        self._by_head.sort(key=self._heads.__getitem__)
        kind = PASSES[key][1]
        self._kept += _KEPT[kind]
        self._done[kind][self._stages[key]] += 1
        self.order.append(key)
