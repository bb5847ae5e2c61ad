"""A plan run on a clock, as far as it goes: the one pass that validation and timing share."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.actions import Kind
from pipeline.coded import KINDS, PAIR
from pipeline.dependencies import Result
from pipeline.flow import Flow

if TYPE_CHECKING:
    from pipeline.plan import Plan


@dataclass(frozen=True, slots=True)
class Walk:
    """When each action started, and where ranks got stuck."""

    starts: tuple["array[float]", ...]
    """Per rank; shorter than its row if it got stuck."""
    free: tuple[float, ...]
    """Per rank: when its last action ended."""
    stuck: dict[int, Result]
    """Rank → the result that its next action needs and that never comes."""
    steps: int
    """How often an action was looked at: those that ran, and once more after each wait."""


def walk(plan: "Plan", costs: Mapping[Kind, float] | None = None) -> Walk:
    """Start every action as soon as its rank and its inputs are there, in linear time.

    `costs` are those of all kinds that the plan has, 1 each if left out. A result made twice is
    there from the first time on.
    """
    cost = [1.0 if costs is None else costs.get(kind, 0.0) for kind in KINDS]
    return _Walker(plan, cost).run()


class _Walker:
    def __init__(self, plan: "Plan", cost: Sequence[float]) -> None:
        self._rows = plan.coded.rows
        self._flow = Flow(plan)
        self._cost = cost
        self._ends = self._flow.table("d", -1.0, self._flow.tables)
        self._starts = [array("d") for _ in self._rows]
        self._free = [0.0] * len(self._rows)
        self._waiting: dict[int, list[int]] = {}  # place of a result → ranks
        self._ready = list(reversed(range(len(self._rows))))

    def run(self) -> Walk:
        stuck: dict[int, int] = {}
        looks = 0
        while self._ready:
            rank = self._ready.pop()
            missing = self._advance(rank)
            if missing >= 0:
                self._waiting.setdefault(missing, []).append(rank)
                stuck[rank] = missing
                looks += 1
            else:
                stuck.pop(rank, None)
        return Walk(
            tuple(self._starts),
            tuple(self._free),
            {rank: self._flow.result(stuck[rank]) for rank in sorted(stuck)},
            looks + sum(map(len, self._starts)),
        )

    def _advance(self, rank: int) -> int:
        """Run a rank until it has to wait: return the place of what it waits for, or -1."""
        row, flow, ends, cost = self._rows[rank], self._flow, self._ends, self._cost
        kinds, stages, microbatches = row.kinds, row.stages, row.microbatches
        first, second, made, waiting = flow.first, flow.second, flow.made, self._waiting
        width, offset, starts = flow.width, flow.offset, self._starts[rank]
        now = self._free[rank]
        for at in range(len(starts), len(kinds)):
            kind = kinds[at]
            if kind == PAIR:
                missing, now = self._pair(rank, at, now)
                if missing >= 0:
                    self._free[rank] = now
                    return missing
                continue
            stage = stages[at]
            place = stage * width + microbatches[at] - offset
            start = now
            if (how_far := first[kind][stage]) is not None:
                end = ends[place + how_far]
                if end < 0:
                    self._free[rank] = now
                    return place + how_far
                if end > start:
                    start = end
            if (how_far := second[kind][stage]) is not None:
                end = ends[place + how_far]
                if end < 0:
                    self._free[rank] = now
                    return place + how_far
                if end > start:
                    start = end
            starts.append(start)
            now = start + cost[kind]
            if made[kind] >= 0:
                place += made[kind]
                if ends[place] < 0:
                    ends[place] = now
                if place in waiting:
                    self._ready.extend(waiting.pop(place))
        self._free[rank] = now
        return -1

    def _pair(self, rank: int, at: int, now: float) -> tuple[int, float]:
        """Run an overlapped pair, which starts when both parts can: what is missing, or the end."""
        row, ends = self._rows[rank], self._ends
        start = now
        for need in self._flow.pair_needs(row, at):
            if ends[need] < 0:
                return need, now
            start = max(start, ends[need])
        self._starts[rank].append(start)
        end = start + self._cost[PAIR]
        for place in self._flow.made_by(row, at):
            if ends[place] < 0:
                ends[place] = end
            self._ready.extend(self._waiting.pop(place, ()))
        return -1, end
