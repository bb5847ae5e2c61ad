"""From one case's outcome to its findings: one root cause, one finding."""

from __future__ import annotations

from collections.abc import Iterable

from harness.case import Case
from harness.checkers import deadlock
from harness.checkers.consequences import follows
from harness.checkers.errors import (
    began_with_none,
    check_errors,
    check_timeout,
    followed_by,
    only_dragged,
)
from harness.checkers.labels import check_labels
from harness.checkers.mismatches import check_collectives, check_messages, check_skew
from harness.checkers.requests import (
    check_buffers,
    check_destroyed,
    check_dropped,
    check_unawaited,
    check_unreceived,
)
from harness.findings import Finding
from harness.semantics import NCCL
from harness.worlds import Outcome


def judge(outcome: Outcome, case: Case) -> list[Finding]:
    """Return what the communication of this outcome shows, errors first, by the clock.

    An error that may follow from an earlier one is named in that one's details
    (``followed_by``) and is no finding of its own. Warnings stand beside them.
    """
    found = _errors(outcome, case.semantics)
    errors = sorted((f for f in found if f.severity == "error"), key=lambda f: f.time_ns)
    causes = _folded(errors, outcome)
    warnings = [finding for finding in found if finding.severity == "warning"]
    return [finding.with_(case=str(case)) for finding in told_once([*causes, *warnings])]


def told_once(findings: Iterable[Finding]) -> list[Finding]:
    """Leave out the warnings about lines that an error speaks of."""
    told = list(findings)
    explained = {(op.file, op.line) for f in told if f.severity == "error" for op in f.operations}
    return [
        finding
        for finding in told
        if finding.severity == "error"
        or not any((op.file, op.line) in explained for op in finding.operations)
    ]


def _folded(errors: list[Finding], outcome: Outcome) -> list[Finding]:
    """Return the independent ones, with what follows from each."""
    causes: list[tuple[Finding, list[Finding]]] = []
    for error in errors:
        for cause, consequences in causes:
            if follows(error, cause, outcome):
                consequences.append(error)
                break
        else:
            causes.append((error, []))
    return [
        cause.with_(details=cause.details | {"followed_by": followed_by(consequences)})
        if consequences
        else cause
        for cause, consequences in causes
    ]


def _errors(outcome: Outcome, semantics: str | None) -> list[Finding]:
    trace, backend = outcome.trace, outcome.backend
    failed = check_errors(outcome)
    raised = [rank.error for rank in outcome.ranks if rank.error is not None]
    if any(error.refused or began_with_none(error) for error in raised):
        from harness.checkers.graph_cut import explain_none_gradient  # needs torch

        graph_cut = explain_none_gradient(outcome)
        failed = failed if graph_cut is None else [graph_cut]
    stuck = deadlock.check(trace, backend)
    if stuck is None and (broken := only_dragged(outcome)):
        stuck = deadlock.check(deadlock.before_failure(trace, broken), backend, give_up=True)
        if stuck is not None:
            failed = []  # the errors are how it ended
    if stuck is not None and semantics in NCCL:
        from harness.hazards.check import check_tags

        stuck = check_tags(trace, semantics) or stuck
    found = [
        *check_collectives(trace),
        *check_labels(trace),  # before what a swap makes of sizes at the same moment
        *check_messages(trace),
        *check_dropped(trace, backend),
        *check_buffers(trace),
        *check_destroyed(trace),
        *failed,
        *([stuck] if stuck is not None else _undecided(outcome)),
        *check_skew(trace),
    ]
    if outcome.ending == "finished":
        found += check_unreceived(trace) + check_unawaited(trace)
    return found


def _undecided(outcome: Outcome) -> list[Finding]:
    """Return ``timeout``, with what it looks like, for a case that time has run out on."""
    if outcome.ending != "timeout":
        return []
    suspected = deadlock.check(outcome.trace, outcome.backend, give_up=True)
    return check_timeout(outcome, suspected)
