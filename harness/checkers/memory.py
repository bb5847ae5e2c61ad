"""Whether a rank keeps more activations than its schedule promises.

A built-in schedule promises its bound, and so do torch's own that are one of ours. A step or a plan
of the user's own promises that of the built-in schedule that it names: ``step.promises = "1f1b"``,
beside it in its file; a class made of torch's, by its attribute ``promises``.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable
from pathlib import Path

from harness.case import Case, UsageError
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
    """Check what the target promises, if anything; UsageError for a promise that is none."""
    schedule = target.text if target.kind == "schedule" else promised(target)
    if schedule not in SCHEDULES:
        return []
    return check_bound(case, outcome, SCHEDULES[schedule].in_flight_bound)


def promised(target: Target) -> str | None:
    """Name the schedule whose bound a target of the user's own promises to keep.

    A file is read and not imported: that is for its ranks.
    """
    if target.kind == "torch":
        return target.promises
    if target.payload is not None:
        schedule = getattr(target.load_function(), "promises", None)
    elif target.path is not None and target.kind in ("step", "plan"):
        changed = Path(target.path).stat().st_mtime_ns
        schedule = _promises(target.path, changed).get(target.function)
    else:
        return None
    if schedule is not None and schedule not in SCHEDULES:
        known = ", ".join(SCHEDULES)
        raise UsageError(f"{target.text} promises {schedule!r}: one of {known} is needed")
    return None if schedule is None else str(schedule)


@functools.lru_cache(maxsize=64)
def _promises(path: str, changed: int) -> dict[str, object]:
    """Return what a file's functions promise, by ``function.promises = "name"`` in it."""
    found: dict[str, object] = {}
    for node in ast.parse(Path(path).read_bytes()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for to in node.targets:
                if isinstance(to, ast.Attribute) and to.attr == "promises":
                    found[ast.unparse(to.value)] = node.value.value
    return found


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
    shown = ", ".join(
        f"rank {at.rank} has {peak} where {allowed} {'is' if allowed == 1 else 'are'} allowed"
        for at, peak, allowed in over
    )
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
