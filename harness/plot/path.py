"""The critical path: actions without a gap between them, from the start to the makespan."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import overload

from harness.plot.causes import Causes
from harness.plot.palette import label
from harness.plot.placed import Placed, Step
from pipeline.coded import COMMS

FIRST, LAST = 6, 4  # of a long path, how many are shown


class Path(Sequence[Step]):
    """The steps of a path, kept as numbers: a path may have as many as the plan."""

    def __init__(self, placed: Placed) -> None:
        self._placed = placed
        self._ranks, self._places = array("i"), array("i")

    def add(self, step: Step) -> None:
        """Append a step."""
        self._ranks.append(step[0])
        self._places.append(step[1])

    def reverse(self) -> None:
        """Turn it round."""
        self._ranks.reverse()
        self._places.reverse()

    def __str__(self) -> str:
        """Print its actions, the middle left out where it is long."""
        if len(self) <= FIRST + LAST:
            return self._labels(self[:])
        return f"{self._labels(self[:FIRST])} … {self._labels(self[-LAST:])}"

    def _labels(self, steps: Sequence[Step]) -> str:
        return " ".join(label(self._placed.action(step)) for step in steps)

    @property
    def names(self) -> list[str]:
        """Its actions, as they print."""
        rows = self._placed.plan.coded.rows
        return [rows[rank].text(at) for rank, at in self]

    def __len__(self) -> int:
        return len(self._ranks)

    @overload
    def __getitem__(self, at: int) -> Step: ...
    @overload
    def __getitem__(self, at: slice) -> list[Step]: ...
    def __getitem__(self, at: int | slice) -> Step | list[Step]:
        if isinstance(at, slice):
            return list(zip(self._ranks[at], self._places[at], strict=True))
        return self._ranks[at], self._places[at]

    def __iter__(self) -> Iterator[Step]:
        return zip(self._ranks, self._places, strict=True)


def critical_path(placed: Placed, causes: Causes) -> Path:
    """Return the actions of one such path, first to last: to shorten the plan, shorten these.

    There may be several; this one ends on the lowest rank that ends last, and stays on its rank
    where it can. Sends and receives, which take no time, are left out.
    """
    path = Path(placed)
    ends = [spans.end if spans else -1.0 for spans in placed.spans]
    if max(ends) < 0:
        return path
    rank = ends.index(max(ends))
    at: Step | None = (rank, len(placed.spans[rank]) - 1)
    # Of an invalid plan, an action twice could lead round in a ring.
    seen = [bytearray(len(spans)) for spans in placed.spans]
    while at is not None and not seen[at[0]][at[1]]:
        seen[at[0]][at[1]] = 1
        if placed.plan.coded.rows[at[0]].kinds[at[1]] not in COMMS:
            path.add(at)
        at = causes.of(at)
    path.reverse()
    return path
