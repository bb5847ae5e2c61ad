"""Time cut into columns: a row per rank, a column per unit of time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from harness.plot.placed import Placed, kind_costs
from pipeline.actions import Action

FINEST = 12  # columns that the shortest action may take, so that all actions fill whole ones
MOST = 200_000  # columns; beyond, they get wider, and short actions may fall between


@dataclass(frozen=True, slots=True)
class Block:
    """An action's place in its row and its columns, ``first`` to before ``end``."""

    at: int
    action: Action
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Grid:
    """The columns of one time scale, which several plans can share."""

    unit: float
    """What time one column is; a column shows what a rank does in its middle."""

    @classmethod
    def of(cls, plots: Iterable[Placed]) -> Grid:
        """Choose the unit: the longest that every action is a multiple of, if that is not tiny.

        Else it is the shortest action's time, so that each still has a column.
        """
        plots = tuple(plots)
        lengths = {
            length
            for placed in plots
            for kind in placed.plan.coded.kinds
            if (length := kind_costs(placed.costs)[kind]) > 0
        }
        shortest = min(lengths, default=1.0)
        exact = _common(lengths)
        unit = exact if exact and shortest / exact <= FINEST else shortest
        longest = max((placed.makespan for placed in plots), default=0.0)
        return cls(max(unit, longest / MOST))

    def column(self, time: float) -> int:
        """Return the first column whose middle is not before a time."""
        place = time / self.unit
        if place.is_integer():
            return int(place)
        return max(0, math.ceil(round(place - 0.5, 6)))

    def columns(self, placed: Placed) -> int:
        """Return how many columns a plan takes."""
        return math.ceil(round(placed.makespan / self.unit, 6))

    def blocks(self, placed: Placed, rank: int) -> list[Block]:
        """Return what a rank does, each action with its columns; those that take none left out."""
        found = []
        for at, (action, (start, end)) in enumerate(placed.running(rank)):
            first, after = self.column(start), self.column(end)
            if after > first:
                found.append(Block(at, action, first, after))
        return found

    def cells(self, placed: Placed, rank: int) -> list[str]:
        """Return what a rank does in each column: an action, or ``""`` where it is idle."""
        columns = [""] * self.columns(placed)
        row, column = placed.plan.coded.rows[rank], self.column
        for at, (start, end) in enumerate(placed.spans[rank]):
            first, after = column(start), column(end)
            if after > first:
                columns[first:after] = [row.text(at)] * (after - first)
        return columns


def _common(lengths: Iterable[float]) -> float:
    """Return the greatest time that all lengths are multiples of, as they are written."""
    parts = [Fraction(str(length)) for length in lengths]
    if not parts:
        return 1.0
    below = math.lcm(*(part.denominator for part in parts))
    return math.gcd(*(int(part * below) for part in parts)) / below
