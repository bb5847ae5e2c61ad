"""The critical path: actions without a gap between them, from the start to the makespan."""

from __future__ import annotations

from harness.plot.causes import Causes
from harness.plot.placed import Placed, Step


def critical_path(placed: Placed, causes: Causes) -> tuple[Step, ...]:
    """Return the actions of one such path, first to last: to shorten the plan, shorten these.

    There may be several; this one ends on the lowest rank that ends last, and stays on its rank
    where it can. Sends and receives, which take no time, are left out.
    """
    ends = [row[-1][1] if row else -1.0 for row in placed.spans]
    if not ends or max(ends) < 0:
        return ()
    rank = ends.index(max(ends))
    at: Step | None = (rank, len(placed.spans[rank]) - 1)
    found: dict[Step, None] = {}  # of an invalid plan, an action twice could lead round in a ring
    while at is not None and at not in found:
        found[at] = None
        at = causes.of(at)
    steps = reversed(found)
    return tuple(step for step in steps if placed.action(step).kind.is_compute)


def shortened(names: list[str], first: int = 6, last: int = 4) -> str:
    """Print a path, its middle left out where it is long."""
    if len(names) > first + last:
        names = [*names[:first], "…", *names[-last:]]
    return " ".join(names)
