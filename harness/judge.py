"""From one case's outcome to its findings: one root cause, one finding."""

from __future__ import annotations

from harness.case import Case
from harness.checkers import deadlock
from harness.checkers.errors import check_errors, check_timeout, followed_by, only_dragged
from harness.checkers.mismatches import check_collectives, check_messages, check_skew
from harness.checkers.requests import (
    check_buffers,
    check_destroyed,
    check_dropped,
    check_unawaited,
    check_unreceived,
)
from harness.findings import Finding
from harness.worlds import Outcome


def judge(outcome: Outcome, case: Case) -> list[Finding]:
    """Return what the communication of this outcome shows, errors first.

    Of several errors the first by the clock is the cause; the others are named in its details
    (``followed_by``) and are no findings of their own. Warnings stand beside it.
    """
    found = _errors(outcome)
    errors = sorted((f for f in found if f.severity == "error"), key=lambda f: f.time_ns)
    warnings = [f for f in found if f.severity == "warning"]
    if errors:
        cause, consequences = errors[0], errors[1:]
        if consequences:
            cause = cause.with_(details=cause.details | {"followed_by": followed_by(consequences)})
        explained = {operation.file + str(operation.line) for operation in cause.operations}
        warnings = [
            warning
            for warning in warnings
            if not any(op.file + str(op.line) in explained for op in warning.operations)
        ]
        errors = [cause]
    return [finding.with_(case=str(case)) for finding in errors + warnings]


def _errors(outcome: Outcome) -> list[Finding]:
    trace, backend = outcome.trace, outcome.backend
    failed = check_errors(outcome)
    if any(rank.error is not None and rank.error.refused for rank in outcome.ranks):
        from harness.checkers.graph_cut import explain_none_gradient  # needs torch

        graph_cut = explain_none_gradient(outcome)
        failed = failed if graph_cut is None else [graph_cut]
    stuck = deadlock.check(trace, backend, give_up=outcome.ending == "timeout")
    if stuck is None and (broken := only_dragged(outcome)):
        stuck = deadlock.check(deadlock.before_failure(trace, broken), backend, give_up=True)
        if stuck is not None:
            failed = []  # the errors are how it ended
    found = [
        *check_collectives(trace),
        *check_messages(trace),
        *check_dropped(trace, backend),
        *check_buffers(trace),
        *check_destroyed(trace),
        *failed,
        *([stuck] if stuck is not None else check_timeout(outcome)),
        *check_skew(trace),
    ]
    if outcome.ending == "finished":
        found += check_unreceived(trace) + check_unawaited(trace)
    return found
