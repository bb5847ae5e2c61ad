"""Where in the user's source a rank computed: operations for findings about numbers."""

from __future__ import annotations

from collections.abc import Iterable

from harness.findings import Operation
from harness.trace import Compute
from harness.worlds import Outcome

NAMES = {"F": "forward", "B": "backward", "I": "input gradient", "W": "weight gradient"}


def operation(compute: Compute, state: str) -> Operation:
    """Make a finding's operation of a compute event."""
    return Operation(
        compute.rank,
        NAMES.get(compute.kind, compute.kind),
        *compute.site,
        state,
        action=f"{compute.stage}{compute.kind}{compute.microbatch}",
    )


def computed(outcome: Outcome, ranks: Iterable[int], kind: str) -> tuple[Operation, ...]:
    """Return each rank's first compute of that kind; its first of any, where it has none."""
    found = []
    for rank in ranks:
        computes = outcome.trace.ranks[rank].computes
        chosen = [c for c in computes if c.kind == kind] or computes
        if chosen:
            found.append(operation(chosen[0], "computed"))
    return tuple(found)


def cut(outcome: Outcome, rank: int) -> tuple[Operation, ...]:
    """Return the forward of ``rank`` whose input does not require grad, or of the rank after it.

    Else any forward of ``rank``: its output, or what came of it, has no graph to go back through.
    """
    for at in outcome.trace.ranks[rank : rank + 2]:
        for compute in at.computes:
            if compute.kind == "F" and not compute.requires_grad:
                return (operation(compute, "input does not require grad"),)
    computes = [c for c in outcome.trace.ranks[rank].computes if c.kind == "F"]
    return tuple(operation(c, "computed") for c in computes[:1])
