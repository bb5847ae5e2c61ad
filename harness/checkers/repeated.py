"""Two runs of one case that should have been the same."""

from __future__ import annotations

from typing import Any

from harness.checkers.phrases import operation, place
from harness.findings import Finding, Severity
from harness.trace import Op
from harness.worlds import Outcome

_CAUSES = (
    "the order in which messages from any source come, a poll of is_completed(), the clock, "
    "random numbers that are not seeded, the order of a set, state kept between runs"
)


def compare_runs(first: Outcome, second: Outcome, severity: Severity) -> Finding | None:
    """Return ``nondeterminism`` where two clean runs of one case differ; None where they do not.

    Each rank's operations are compared, in its own order. What the ranks returned counts too
    where a difference is an error: in a check, whose results are numbers.
    """
    for one, other in zip(first.trace.ranks, second.trace.ranks, strict=True):
        ours, theirs = list(one.ops.values()), list(other.ops.values())
        for a, b in zip(ours, theirs, strict=False):
            if _key(a) != _key(b):
                return _differs(severity, one.rank, a, f"instead of {_named(a)} it did {_named(b)}")
        if len(ours) != len(theirs):
            longer = ours if len(ours) > len(theirs) else theirs
            extra = longer[min(len(ours), len(theirs))]
            counts = f"{len(ours)} operations, then {len(theirs)}"
            return _differs(severity, one.rank, extra, f"it did {counts}")
    if severity == "error":
        for rank, (mine, its) in enumerate(
            zip(first.notes["results"], second.notes["results"], strict=True)
        ):
            if mine != its:
                return _differs(severity, rank, None, "its numbers differ")
    return None


def _key(op: Op) -> tuple[Any, ...]:
    return (
        op.kind, op.api, op.group, op.site, op.peer, op.tag, op.numel, op.dtype, op.root,
        op.reduce_op, op.action,
    )  # fmt: skip


def _named(op: Op) -> str:
    towards = "" if op.peer is None else f" {'to' if op.kind == 'send' else 'from'} rank {op.peer}"
    return f"{op.api}{towards} at {place(op.site)}"


def _differs(severity: Severity, rank: int, op: Op | None, what: str) -> Finding:
    return Finding(
        code="nondeterminism",
        severity=severity,
        message=(
            f"the same case with another interleaving of the ranks differs: on rank {rank} {what}"
        ),
        help=f"look for what is not decided by the case: {_CAUSES}",
        ranks=(rank,),
        operations=() if op is None else (operation(op),),
    )
