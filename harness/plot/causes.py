"""What each action of a plan in time started right after."""

from __future__ import annotations

from harness.plot.placed import Placed, Step, needs_of
from pipeline.dependencies import Result, results

NEAR = 1e-9  # of the makespan: times this close are the same


class Causes:
    """Looks up the action that another one waited for, its rank's own before it or its data's."""

    def __init__(self, placed: Placed) -> None:
        self._placed = placed
        self._near = NEAR * placed.makespan
        self._maker: dict[Result, Step] = {}
        for rank, spans in enumerate(placed.spans):
            row = placed.plan.rows[rank]
            for at in range(len(spans)):
                for result in results(row[at]):
                    self._maker.setdefault(result, (rank, at))

    def of(self, step: Step) -> Step | None:
        """Return it: its rank's own where both ended then; None for what starts at once."""
        rank, at = step
        spans = self._placed.spans
        start = spans[rank][at][0]
        if at and spans[rank][at - 1][1] >= start - self._near:
            return rank, at - 1
        needs = needs_of(self._placed.plan, self._placed.action(step))
        makers = [self._maker[need] for need in needs if need in self._maker]
        in_time = [maker for maker in makers if self._end(maker) <= start + self._near]
        return max(in_time, key=self._end, default=None)

    def _end(self, step: Step) -> float:
        rank, at = step
        return self._placed.spans[rank][at][1]
