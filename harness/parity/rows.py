"""Which samples each microbatch was made of, as the first stage's forwards saw them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from harness.parity.reference import Rows
from harness.parity.results import StepRecord
from pipeline.model import chunk_sizes


@dataclass(frozen=True, slots=True)
class Partition:
    """The batch in microbatches, by their first sample, whoever numbered them how."""

    rows: tuple[Rows, ...]
    column_of: dict[int, int]
    """A rank's number of a microbatch → its place in ``rows``."""
    unfed: tuple[int, ...] = ()
    """Places in ``rows`` that no forward was given."""

    def seen(self, microbatches: Sequence[int]) -> tuple[int, ...]:
        """Translate backwards to the places that are known of them, in their order."""
        return tuple(self.column_of[m] for m in microbatches if m in self.column_of)

    def order(self, microbatches: Sequence[int], expected: Sequence[int]) -> tuple[int, ...]:
        """Translate backwards, as a stage numbers them, to places; the expected if unusable."""
        places = self.seen(microbatches)
        return places if sorted(places) == sorted(expected) else tuple(expected)

    def shares(self, firsts: Sequence[StepRecord]) -> list[tuple[int, ...]]:
        """Tell which places each direction is to do, by what its first stage was given.

        Whatever no one was given is the last one's.
        """
        left = list(range(len(self.rows)))
        shares = []
        for first in firsts[:-1]:
            mine = sorted(set(self.seen(first.forwards)) & set(left))
            left = [place for place in left if place not in mine]
            shares.append(tuple(mine))
        return [*shares, tuple(left)]


def by_size(batch: int, chunks: int) -> Partition:
    """Cut the batch as the pipeline's own executor does."""
    ends = [0, *accumulate(chunk_sizes(batch, chunks))]
    rows = tuple(tuple(range(a, b)) for a, b in pairwise(ends))
    return Partition(rows, {k: k for k in range(len(rows))})


def partition(batch: int, chunks: int, firsts: Sequence[StepRecord]) -> Partition:
    """Cut the batch as the step did; as the executor would, where that cannot be told.

    ``firsts`` are the first stages', one of each direction. Samples that no forward was given are
    microbatches of their own: their gradient is missing.
    """
    given = [rows for first in firsts for rows in first.fed]
    fed = [rows for rows in given if rows is not None]
    taken = sorted(row for rows in set(fed) for row in rows)
    if not fed or len(fed) < len(given) or len(set(taken)) < len(taken):
        return by_size(batch, chunks)
    rest = _runs([row for row in range(batch) if row not in set(taken)])
    rows = tuple(sorted({*fed, *rest}))
    places = {chosen: place for place, chosen in enumerate(rows)}
    numbers = [microbatch for first in firsts for microbatch in first.forwards]
    column_of = {m: places[r] for m, r in zip(numbers, fed, strict=True)}
    return Partition(rows, column_of, tuple(places[r] for r in rest))


def _runs(rows: Sequence[int]) -> list[Rows]:
    """Group ascending numbers into runs of consecutive ones."""
    runs: list[list[int]] = []
    for row in rows:
        if runs and runs[-1][-1] == row - 1:
            runs[-1].append(row)
        else:
            runs.append([row])
    return [tuple(run) for run in runs]
