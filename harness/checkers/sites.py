"""Where in the user's source a rank computed: operations for findings about numbers."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from harness.findings import Operation
from harness.parity.results import StageResult
from harness.trace import Compute, Frame
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


def computed(
    outcome: Outcome,
    stages: Iterable[StageResult],
    kind: str,
    microbatches: Container[int] = range(0),
) -> tuple[Operation, ...]:
    """Return each stage's first compute of that kind; its first of any, where it has none.

    Of a backward that is split, the part for the weights; of these microbatches, where there is
    one of them.
    """
    found = []
    for stage in stages:
        computes = _computes(outcome, stage)
        kinds = ("B", "W") if kind == "B" else (kind,)
        chosen = [c for c in computes if c.kind in kinds] or computes
        chosen = [c for c in chosen if c.microbatch in microbatches] or chosen
        if chosen:
            found.append(operation(chosen[0], "computed"))
        elif (idle := _idle(outcome, stage.rank)) is not None and idle not in found:
            found.append(idle)
    return tuple(found)


def _idle(outcome: Outcome, rank: int) -> Operation | None:
    """Return the step of a rank that computed nothing, where its file is known."""
    at: Frame | None = outcome.ranks[rank].result.defined_at
    if at is None:
        return None
    return Operation(rank, "step", at.file, at.line, at.function, "computed nothing")


def cut(outcome: Outcome, stages: Sequence[StageResult]) -> tuple[Operation, ...]:
    """Return the forward, of a stage or the one after it, whose input does not require grad.

    Else any forward of the first: its output, or what came of it, has no graph to go back through.
    """
    for stage in stages:
        for compute in _computes(outcome, stage):
            if compute.kind == "F" and not compute.requires_grad:
                return (operation(compute, "input does not require grad"),)
    computes = [c for c in _computes(outcome, stages[0]) if c.kind == "F"]
    return tuple(operation(c, "computed") for c in computes[:1])


def owner(stage: StageResult, chain: Sequence[StageResult]) -> str:
    """Name what computes a stage: its rank, where that has no other stage."""
    alone = sum(other.rank == stage.rank for other in chain) == 1
    return f"rank {stage.rank}" if alone else f"stage {stage.number} on rank {stage.rank}"


def _computes(outcome: Outcome, stage: StageResult) -> list[Compute]:
    computes = outcome.trace.ranks[stage.rank].computes
    return [compute for compute in computes if compute.stage == stage.number]
