"""Two runs of one case that should have been the same."""

from __future__ import annotations

import operator as operators
from typing import Any

from harness.checkers.phrases import operation, place
from harness.findings import Finding, Severity
from harness.parity.results import StepResult
from harness.trace import Op
from harness.worlds import Outcome

_CAUSES = (
    "the order in which messages from any source come, a poll of is_completed(), the clock, "
    "random numbers that are not seeded, the order of a set, state kept between runs"
)


def compare_runs(first: Outcome, second: Outcome, severity: Severity) -> Finding | None:
    """Return ``nondeterminism`` where two clean runs of one case differ; None where they do not.

    ``severity`` is that of other results. Other operations that come to the same results are a
    warning. A program's results count where the order of its messages is left open: what else it
    returns is its own business, and may be the time.
    """
    in_a_check = severity == "error"
    differing = _with_other_results(first, second)
    operations = _other_operations(first, second)
    if operations is not None:
        rank, op, what = operations
        if differing is not None:
            return _differs(severity, rank, op, what)
        return _differs("warning", rank, op, what + ", with the same results" * in_a_check)
    if differing is None or not (in_a_check or first.notes["depends_on_interleaving"]):
        return None
    what = "its numbers differ" if in_a_check else "it returned something else"
    return _differs(severity, differing, None, what)


def _other_operations(first: Outcome, second: Outcome) -> tuple[int, Op, str] | None:
    """Return the rank whose operations differ, in its own order, the first of them, and how."""
    for one, other in zip(first.trace.ranks, second.trace.ranks, strict=True):
        ours, theirs = list(one.ops.values()), list(other.ops.values())
        for a, b in zip(ours, theirs, strict=False):
            if names := _differing(a, b):
                what = f"instead of {_named(a)} it did {_named(b)}{_how(a, b, names)}"
                return one.rank, a, what
        if len(ours) != len(theirs):
            longer = ours if len(ours) > len(theirs) else theirs
            extra = longer[min(len(ours), len(theirs))]
            return one.rank, extra, f"it did {len(ours)} operations, then {len(theirs)}"
    return None


def _with_other_results(first: Outcome, second: Outcome) -> int | None:
    """Return the first rank that came to other results."""
    kept, others = first.notes["results"], second.notes["results"]
    for mine, its in zip(first.ranks, second.ranks, strict=True):
        a, b = kept[mine.rank], others[its.rank]
        if a != b and _numbers(mine.result, a) != _numbers(its.result, b):
            return mine.rank
    return None


def _numbers(result: Any, kept: Any) -> Any:
    """Return what counts of a result: of training steps the numbers, not in which order."""
    if not isinstance(result, StepResult):
        return kept
    return [(s.gradient, s.parameters, s.loss) for stage in result.stages for s in stage.steps]


_COMPARED = {
    "kind": "kind", "api": "call", "site": "line", "group": "group", "peer": "peer", "tag": "tag",
    "numel": "elements", "dtype": "dtype", "root": "root", "reduce_op": "reduction",
    "action": "action",
}  # fmt: skip
"""What of two operations may not differ, and its name."""
_NAMED = ("kind", "api", "site", "peer")  # told of each operation anyway
_OF_OBJECTS = ("_object", "_object_list")
_values = operators.attrgetter(*_COMPARED)


def _differing(one: Op, other: Op) -> list[str]:
    """Return in what two operations differ; objects may be of any length when pickled."""
    if _values(one) == _values(other):
        return []
    pairs = zip(_COMPARED, _values(one), _values(other), strict=True)
    names = [name for name, a, b in pairs if a != b]
    if one.api.endswith(_OF_OBJECTS) and one.api == other.api:
        names = [name for name in names if name != "numel"]
    return names


def _how(one: Op, other: Op, names: list[str]) -> str:
    """Say what differs, beyond what tells the operations from each other."""
    told = [
        f"{_COMPARED[name]} {getattr(one, name)} and {getattr(other, name)}"
        for name in names
        if name not in _NAMED
    ]
    return f" ({'; '.join(told)})" if told else ""


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
