"""Whether the ranks' numbers are the monolith's: one finding for the first thing that is not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from harness.case import Case
from harness.checkers import sites
from harness.checkers.graph_cut import explain_none_gradient
from harness.checkers.phrases import do, join, ranks_text
from harness.checkers.start import initial_values, layers
from harness.findings import Finding, Operation
from harness.parity import advice
from harness.parity.causes import Claim
from harness.parity.diagnose import diagnose
from harness.parity.oracle import Difference, Verdict, compare
from harness.parity.results import StepResult
from harness.parity.shape import complete, own_stage_workload, workload_of
from harness.targets import Target
from harness.worlds import Outcome

__all__ = ["check", "examine", "explain_none_gradient", "invalid_plan"]


def check(case: Case, outcome: Outcome, target: Target) -> list[Finding]:
    """Return at most one finding: an earlier difference explains the later ones.

    Nothing is said where a rank raised or died: that is its finding.
    """
    return examine(case, outcome, target)[0]


def examine(case: Case, outcome: Outcome, target: Target) -> tuple[list[Finding], Verdict | None]:
    """Do the same, and return what was compared, None where nothing could be."""
    results = [rank.result for rank in outcome.ranks if isinstance(rank.result, StepResult)]
    if plan := [result for result in results if result.plan_error]:
        return [invalid_plan(plan[0])], None
    if len(results) < len(outcome.ranks) or not all(result.steps for result in results):
        return _without_result(outcome), None
    case = complete(case)
    workload = workload_of(case)
    if results[0].built_at is not None:
        workload = own_stage_workload(workload)
        if found := layers(workload, results) or initial_values(workload, results):
            return [found], None
    if found := _wrong_loss_type(results, outcome):
        return [found], None
    exact = target.kind in ("schedule", "plan") and outcome.backend != "nccl"
    assert case.chunks is not None
    verdict = compare(workload, case.chunks, results, exact=exact)
    if verdict.difference is None:
        missing = _without_loss(results, outcome) if verdict.compared else None
        return [] if missing is None else [missing], verdict
    return [_finding(verdict.difference, results, outcome, case)], verdict


def invalid_plan(result: StepResult) -> Finding:
    """Make a finding of a plan that cannot be run."""
    operations = tuple(
        Operation(p.rank, p.action, p.file, p.line, p.function, p.reason, action=p.action)
        for p in result.problems
    )
    return Finding(
        "plan-invalid",
        result.plan_error,
        "give every (stage, microbatch) one F and one B on the rank that holds the stage, "
        "each after what it needs",
        ranks=tuple(sorted({p.rank for p in result.problems})),
        operations=operations[:8],
        details={"problems": len(result.problems)},
    )


def _without_result(outcome: Outcome) -> list[Finding]:
    """Report ranks that ended well and left their steps half done (``sys.exit`` in the step)."""
    if outcome.ending != "finished" or any(rank.error for rank in outcome.ranks):
        return []
    gone = [r.rank for r in outcome.ranks if not isinstance(r.result, StepResult) and r.finished]
    if not gone:
        return []
    return [
        Finding(
            "rank-death",
            f"{ranks_text(gone)} left before the step was over",
            "return from the step instead of calling sys.exit() or os._exit()",
            ranks=tuple(gone),
        )
    ]


def _wrong_loss_type(results: Sequence[StepResult], outcome: Outcome) -> Finding | None:
    last = results[-1]
    for number, record in enumerate(last.steps):
        if record.loss_type is not None:
            return Finding(
                "loss-mismatch",
                f"the step returned {record.loss_type} on the last stage's rank; expected the "
                "step's mean loss, a float or 0-d tensor",
                "return the mean loss over the batch on the last stage's rank and None elsewhere",
                ranks=(last.rank,),
                operations=sites.computed(outcome, [last.rank], "F"),
                details={"step": number, "returned": record.loss_type},
            )
    return None


def _without_loss(results: Sequence[StepResult], outcome: Outcome) -> Finding | None:
    """Tell of a step that gives no loss back: its contract says that it does."""
    last = results[-1]
    for number, record in enumerate(last.steps):
        if record.loss is None:
            return Finding(
                "loss-mismatch",
                "the step returned no loss on the last stage's rank; the gradients are right",
                "return the step's mean loss over the batch on the last stage's rank, and None "
                "elsewhere",
                ranks=(last.rank,),
                operations=sites.computed(outcome, [last.rank], "F"),
                details={"step": number, "returned": "None"},
            )
    return None


def _finding(
    difference: Difference, results: Sequence[StepResult], outcome: Outcome, case: Case
) -> Finding:
    details: dict[str, Any] = {"step": difference.step, "max_relative_error": difference.error}
    if difference.bound is not None:
        details["allowed"] = float(
            difference.bound.loss
            if difference.what == "loss"
            else difference.bound.gradient[difference.parameter]
        )
    if difference.what == "loss":
        return _loss(difference, outcome, details)
    names = _names(difference, results)
    details |= {"stage": min(difference.ranks), "parameter": names}
    if difference.what == "parameter":
        return _parameters(difference, outcome, details)
    return _gradient(difference, results, outcome, case, details)


def _loss(difference: Difference, outcome: Outcome, details: dict[str, Any]) -> Finding:
    details |= {"expected": difference.expected, "got": difference.got}
    ratio = difference.got / difference.expected if difference.expected else math.nan
    times = f", {ratio:.4g} times that" if math.isfinite(ratio) and abs(ratio - 1) > 1e-3 else ""
    return Finding(
        "loss-mismatch",
        f"the loss returned in step {difference.step} is {difference.got:.6g}, the monolith's is "
        f"{difference.expected:.6g}{times}; the gradients are right",
        "return the mean over the batch: each microbatch's mean loss weighted by "
        "size / batch.size, added up once",
        ranks=difference.ranks,
        operations=sites.computed(outcome, difference.ranks, "F"),
        details=details,
    )


def _parameters(difference: Difference, outcome: Outcome, details: dict[str, Any]) -> Finding:
    return Finding(
        "parameter-mismatch",
        f"after step {difference.step} {do(difference.ranks)} not have the parameters that the "
        "optimizer makes of their gradients",
        "leave parameters and their update to the harness's optimizer: the step only accumulates "
        "gradients",
        ranks=difference.ranks,
        operations=sites.computed(outcome, difference.ranks, "B"),
        details=details,
    )


def _gradient(
    difference: Difference,
    results: Sequence[StepResult],
    outcome: Outcome,
    case: Case,
    details: dict[str, Any],
) -> Finding:
    records = [result.steps[difference.step] for result in results]
    if difference.within_tolerance:
        claim, culprit = Claim(note="it differs in the last bits only"), max(difference.ranks)
    else:
        claim, culprit = diagnose(difference, records)
    if claim.coefficients:
        details["coefficients"] = list(claim.coefficients)
    assert case.chunks is not None
    if claim.kind == "graph-cut":
        operations = sites.cut(outcome, culprit)
    else:
        operations = sites.computed(outcome, _from(culprit, difference.ranks), "B")
    seen = advice.seen_in(claim) or claim.note
    evidence = difference.evidence
    if evidence is not None and evidence.partition.unfed:
        rows = [r for place in evidence.partition.unfed for r in evidence.partition.rows[place]]
        details["never_fed"] = rows
        seen = f"samples {join(rows)} of {case.batch} never went into the first stage"
    return Finding(
        "gradient-mismatch",
        f"the gradient of step {difference.step} on {ranks_text(difference.ranks)} is not the "
        "monolith's" + (f": {seen}" if seen else ""),
        advice.help_for(claim, case.chunks),
        ranks=difference.ranks,
        operations=operations,
        cause=claim.cause,
        details=details,
    )


def _from(culprit: int, ranks: Sequence[int]) -> list[int]:
    """List the ranks, that where it began first."""
    return [culprit, *(rank for rank in ranks if rank != culprit)]


def _names(difference: Difference, results: Sequence[StepResult]) -> str:
    names = [
        f"stage {result.rank} {name.removeprefix('units.0.') if result.built_at else name}"
        for result in results
        for name, _ in result.layout
    ]
    return names[difference.parameter]
