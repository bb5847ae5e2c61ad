"""Where in the user's source a rank computed: operations for findings about numbers."""

from __future__ import annotations

from collections.abc import Iterable

from harness.findings import Operation
from harness.trace import Compute
from harness.worlds import Outcome

_NAMES = {"F": "forward", "B": "backward", "I": "input gradient", "W": "weight gradient"}


def operation(compute: Compute, state: str) -> Operation:
    """Make a finding's operation of a compute event."""
    return Operation(
        compute.rank,
        _NAMES.get(compute.kind, compute.kind),
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
    """Return the forward of ``rank`` whose input does not require grad; else any forward there."""
    computes = [c for c in outcome.trace.ranks[rank].computes if c.kind == "F"]
    cuts = [c for c in computes if not c.requires_grad]
    if cuts:
        return (operation(cuts[0], "input does not require grad"),)
    return tuple(operation(c, "computed") for c in computes[:1])
