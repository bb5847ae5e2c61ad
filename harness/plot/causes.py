"""What each action of a plan in time started right after."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from harness.plot.placed import Placed, Step
from pipeline.flow import Flow

NEAR = 1e-9  # of the makespan: times this close are the same


class Causes:
    """Looks up the action that another one waited for, its rank's own before it or its data's."""

    def __init__(self, placed: Placed) -> None:
        self._placed = placed
        self._rows = placed.plan.coded.rows
        self._near = NEAR * placed.makespan
        self._flow = flow = Flow(placed.plan)
        # Actions are numbered rank by rank; by result, which of those that ran first made it.
        self._base = [0, *accumulate(map(len, self._rows))]
        self._maker = maker = flow.table("i", -1, flow.tables)
        for row, spans, base in zip(self._rows, placed.spans, self._base, strict=False):
            for at in range(len(spans)):
                for place in flow.made_by(row, at):
                    if maker[place] < 0:
                        maker[place] = base + at

    def of(self, step: Step) -> Step | None:
        """Return it: its rank's own where both ended then; None for what starts at once."""
        rank, at = step
        spans = self._placed.spans[rank]
        start = spans.starts[at]
        if at and spans[at - 1][1] >= start - self._near:
            return rank, at - 1
        makers = [self._maker[need] for need in self._flow.needs(self._rows[rank], at)]
        steps = [self._step(maker) for maker in makers if maker >= 0]
        in_time = [maker for maker in steps if self._end(maker) <= start + self._near]
        return max(in_time, key=self._end, default=None)

    def _step(self, number: int) -> Step:
        rank = bisect_right(self._base, number) - 1
        return rank, number - self._base[rank]

    def _end(self, step: Step) -> float:
        rank, at = step
        return self._placed.spans[rank][at][1]
