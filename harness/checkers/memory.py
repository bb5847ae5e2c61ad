"""Whether a rank keeps more activations than its schedule promises (FACTS: "Checkable tables")."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from harness.case import Case
from harness.checkers import sites
from harness.findings import Finding
from harness.parity.shape import complete
from harness.targets import Target
from harness.trace import Compute
from harness.worlds import Outcome
from pipeline.schedules import SCHEDULES

Bound = Callable[[int, int, int], int]
"""(rank, world, chunks) → the most (stage, microbatch) pairs in flight on that rank."""


def check(case: Case, outcome: Outcome, target: Target) -> list[Finding]:
    """Check a built-in schedule's promise; other targets promise nothing."""
    if target.kind != "schedule" or target.text not in SCHEDULES:
        return []
    return check_bound(case, outcome, SCHEDULES[target.text].in_flight_bound)


def check_bound(case: Case, outcome: Outcome, bound: Bound) -> list[Finding]:
    """Return one finding for all ranks whose peak in flight is above their bound."""
    chunks = complete(case).chunks
    assert chunks is not None
    over: list[tuple[Compute, int, int]] = []
    for rank in outcome.trace.ranks:
        allowed = bound(rank.rank, case.world, chunks)
        peak, at = peak_in_flight(rank.computes)
        if at is not None and peak > allowed:
            over.append((at, peak, allowed))
    if not over:
        return []
    shown = ", ".join(f"rank {at.rank} {peak} for {allowed}" for at, peak, allowed in over)
    return [
        Finding(
            "memory-bound",
            f"more activations in flight than the schedule promises: {shown}",
            "do the backwards that are ready before the next forward",
            ranks=tuple(at.rank for at, _, _ in over),
            operations=tuple(sites.operation(at, f"{peak} in flight") for at, peak, _ in over),
            details={f"rank {at.rank}": {"peak": peak, "bound": b} for at, peak, b in over},
        )
    ]


def peak_in_flight(computes: Iterable[Compute]) -> tuple[int, Compute | None]:
    """Return the most forwards done whose backward is not, and the forward that got there.

    With a split backward, W frees the activation.
    """
    now = peak = 0
    at = None
    for compute in computes:
        if compute.kind == "F":
            now += 1
            if now > peak:
                peak, at = now, compute
        elif compute.kind in ("B", "W"):
            now -= 1
    return peak, at
