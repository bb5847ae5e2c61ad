"""Whether one error may follow from another: then it is no finding of its own."""

from __future__ import annotations

from collections.abc import Iterable

from harness.findings import Finding
from harness.trace import Op, Trace
from harness.worlds import Outcome

ENDINGS = frozenset(
    {"deadlock", "orphan-wait", "timeout", "rank-error", "rank-death", "invalid-argument"}
)
"""How ranks end: any rank may have come to it through what went wrong earlier on another."""


def follows(error: Finding, cause: Finding, outcome: Outcome) -> bool:
    """Whether ``error`` may follow from ``cause``, which came first.

    The same at the same lines is the same again. What disagrees shifts or spoils what comes after
    it on its channel. Where all ranks finished, anything else is a fault of its own. Where they did
    not, it is one only on ranks that nothing of the first has reached: a rank that reads wrong data
    may do anything.
    """
    if error.code in ENDINGS or _channels(error) & _channels(cause):
        return True
    if error.code == cause.code and _lines(error) & _lines(cause):
        return True
    if outcome.ending == "finished":
        return False
    partners = {op.peer for op in error.operations if op.peer is not None}
    reached = _reached(outcome.trace, set(cause.ranks), cause.time_ns)
    return not reached.isdisjoint({*error.ranks, *partners})


def _lines(finding: Finding) -> set[tuple[str, int]]:
    return {(op.file, op.line) for op in finding.operations if op.line}


def _channels(finding: Finding) -> set[object]:
    """Return what a disagreement shifts: the pair and tag of messages, a group's collectives."""
    pairs: set[object] = {
        (frozenset({op.rank, op.peer}), op.tag or 0)
        for op in finding.operations
        if op.peer is not None
    }
    return pairs | ({finding.details["group"]} if "group" in finding.details else set())


def _reached(trace: Trace, ranks: set[int], since: int) -> set[int]:
    """Return the ranks that have met one of ``ranks``, or one that had, since then."""
    meetings = [set(met) for met in trace.matcher.meetings.values() if _late(met.values(), since)]
    for op in trace.operations():
        if op.kind == "send" and op.match is not None and _late((op, op.match), since):
            meetings.append({op.rank, op.match.rank})
    reached, before = set(ranks), -1
    while len(reached) != before:
        before = len(reached)
        for meeting in meetings:
            if meeting & reached:
                reached |= meeting
    return reached


def _late(ops: Iterable[Op], since: int) -> bool:
    """Whether the last of them was posted since then: before that, nothing has passed."""
    return max(op.posted_ns for op in ops) >= since
