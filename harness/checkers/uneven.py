"""What torch's schedules make of a batch that its chunks do not divide: one cause, told as such."""

from __future__ import annotations

import math
from collections.abc import Iterable

from harness.case import Case
from harness.findings import Finding
from harness.parity.shape import complete
from harness.targets import Target

CAUSE = "uneven-microbatches"


def explained(found: Iterable[Finding], case: Case, target: Target) -> list[Finding]:
    """Return the findings; of those that uneven microbatches make, with that cause and its help."""
    case = complete(case)
    assert case.batch is not None
    assert case.chunks is not None
    if not target.needs_even_batches or case.batch % case.chunks == 0:
        return list(found)
    help_ = (
        "torch makes every receive buffer as large as the first microbatch, and divides the "
        "gradients by the number of microbatches, whatever their sizes: give a batch that chunks "
        f"divides ({case.batch} is no multiple of {case.chunks}), pad it, or drop the rest"
    )
    share = 1 / case.chunks
    return [f.with_(cause=CAUSE, help=help_) if _is_of_it(f, share) else f for f in found]


def _is_of_it(finding: Finding, share: float) -> bool:
    if finding.code == "gradient-mismatch":
        counts = finding.details.get("each_counts")
        return counts is not None and math.isclose(counts, share, rel_tol=0.05)
    return finding.code == "shape-mismatch" and finding.severity == "error"
