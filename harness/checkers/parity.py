"""Whether the ranks' numbers are the monolith's: one finding for the first thing that is not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from harness.case import Case
from harness.checkers import sites
from harness.checkers.directions import blame
from harness.checkers.graph_cut import explain_none_gradient
from harness.checkers.own_gradients import names_of, not_summed, unlike_inputs
from harness.checkers.own_start import cut, drawn_alike
from harness.checkers.phrases import do, join, ranks_text
from harness.checkers.start import initial_values, layers
from harness.findings import Finding, Operation
from harness.parity import advice, tied
from harness.parity.causes import Claim
from harness.parity.diagnose import diagnose, stale_batch
from harness.parity.oracle import Difference, Verdict, compare
from harness.parity.results import (
    Chain,
    PlanProblem,
    StageResult,
    StepRecord,
    StepResult,
    chains,
)
from harness.parity.shape import complete, own_stage_workload, users_workload, workload_of
from harness.targets import Target
from harness.targets.own_model import load_own_model
from harness.worlds import Outcome
from pipeline.model import Training

TIGHT = 1e-3  # a bound on relative errors that no fault looked for keeps within

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
    if len(results) < len(outcome.ranks) or not all(result.ran for result in results):
        return _without_result(outcome), None
    case = complete(case)
    chain = chains(results)[0]
    workload, found = _started(case, chain, target)
    if found is not None:
        return [found], None
    if found := _wrong_loss_type(results, outcome):
        return [found], None
    exact = target.is_plan and outcome.backend != "nccl"
    assert case.chunks is not None
    verdict = compare(workload, case.chunks, results, exact=exact)
    if verdict.difference is None:
        missing = _without_loss(results, outcome) if verdict.compared else None
        return [] if missing is None else [missing], verdict
    return [_finding(verdict.difference, outcome, case)], verdict


def _started(case: Case, chain: Chain, target: Target) -> tuple[Training, Finding | None]:
    """Return what the stages are to be a part of, and what is wrong with how they start."""
    if chain[0].built_at is None:
        return workload_of(case), None
    if (parts := load_own_model(target)) is not None:
        users = users_workload(target, parts, case, len(chain))
        return users, cut(users, chain) or drawn_alike(users, chain)
    workload = own_stage_workload(workload_of(case))
    return workload, layers(workload, chain) or initial_values(workload, chain)


def invalid_plan(result: StepResult) -> Finding:
    """Make a finding of a plan that cannot be run."""
    operations = tuple(
        Operation(p.rank, _op(p.action), p.file, p.line, p.function, p.reason, action=p.action)
        for p in result.problems
    )
    return Finding(
        "plan-invalid",
        result.plan_error,
        _plan_help(result.problems),
        ranks=tuple(sorted({p.rank for p in result.problems})),
        operations=operations[:8],
        details={"problems": len(result.problems)},
    )


_OPS = {
    **sites.NAMES,
    "SEND_F": "send",
    "RECV_F": "receive",
    "SEND_B": "send",
    "RECV_B": "receive",
}


def _op(action: str) -> str:
    """Name what an action does; the action itself where it is none."""
    kind = action.strip("-0123456789")
    return _OPS.get(kind, action)


_PLAN_HELP = (
    (
        "waits for",
        "let no rank wait for what another does only after that rank's own: the earlier a rank, "
        "the more forwards it runs before its first backward",
    ),
    ("has no ", "give every send its receive on the other rank, and every receive its send"),
    ("needs ", "receive what another rank makes before the action that uses it"),
    (
        "is out of range",
        "count stages and microbatches from 0, and clamp a warmup to the number of microbatches: "
        "min(chunks, …)",
    ),
    ("is on the wrong rank", "give every action of a stage to the one rank that holds it"),
    ("comes before", "move it behind what it needs"),
    ("is done already", "give a microbatch either one B, or one I and one W after it"),
    ("is missing: ", "give a microbatch either one B, or one I and one W after it"),
)


def _plan_help(problems: Sequence[PlanProblem]) -> str:
    """Say what to do about the first of a plan's problems."""
    if not problems:
        return "let plan(rank, world_size, chunks) yield that rank's actions, as text such as '0F0'"
    reason = problems[0].reason
    return next(
        (text for start, text in _PLAN_HELP if reason.startswith(start)),
        "give every (stage, microbatch) one F and one B on the rank that holds the stage, "
        "each after what it needs",
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
    for last, number, record in _last_records(results):
        if record.loss_type is not None:
            return Finding(
                "loss-mismatch",
                f"the step returned {record.loss_type} on the last stage's rank; expected the "
                "step's mean loss, a float or 0-d tensor",
                "return the mean loss over the batch on the last stage's rank and None elsewhere",
                ranks=(last.rank,),
                operations=sites.computed(outcome, [last], "F"),
                details={"step": number, "returned": record.loss_type},
            )
    return None


def _without_loss(results: Sequence[StepResult], outcome: Outcome) -> Finding | None:
    """Tell of a step that gives no loss back: its contract says that it does."""
    for last, number, record in _last_records(results):
        if record.loss is None:
            return Finding(
                "loss-mismatch",
                "the step returned no loss on the last stage's rank; the gradients are right",
                "return the step's mean loss over the batch on the last stage's rank, and None "
                "elsewhere",
                ranks=(last.rank,),
                operations=sites.computed(outcome, [last], "F"),
                details={"step": number, "returned": "None"},
            )
    return None


def _last_records(results: Sequence[StepResult]) -> Iterator[tuple[StageResult, int, StepRecord]]:
    """Yield what the last stages did in each step."""
    for chain in chains(results):
        for number, record in enumerate(chain[-1].steps):
            yield chain[-1], number, record


def _finding(difference: Difference, outcome: Outcome, case: Case) -> Finding:
    details: dict[str, Any] = {"step": difference.step, "max_relative_error": difference.error}
    if difference.bound is not None:
        details["allowed"] = float(
            difference.bound.loss
            if difference.what == "loss"
            else difference.bound.gradient[difference.parameter]
        )
    if difference.what == "loss" and stale_batch(difference) is not None:
        # Its gradient is wrong as well, however much the bound of a low precision allows.
        every = tuple(range(len(difference.chain)))
        difference = replace(difference, what="gradient", stages=every)
    if difference.what == "loss":
        return _loss(difference, outcome, details)
    stage = difference.chain[min(difference.stages)]
    details |= {"stage": stage.number, "parameter": _name(difference)}
    if difference.what == "parameter":
        return _parameters(difference, outcome, details)
    return _gradient(difference, outcome, case, details)


def _on(difference: Difference, stages: Iterable[int] | None = None) -> list[StageResult]:
    """Return the stages that differ, or those at these places of the chain."""
    return [difference.chain[at] for at in (difference.stages if stages is None else stages)]


def _ranks(difference: Difference) -> tuple[int, ...]:
    return tuple(sorted({stage.rank for stage in _on(difference)}))


def _loss(difference: Difference, outcome: Outcome, details: dict[str, Any]) -> Finding:
    details |= {"expected": difference.expected, "got": difference.got}
    ratio = difference.got / difference.expected if difference.expected else math.nan
    times = f", {ratio:.4g} times that" if math.isfinite(ratio) and abs(ratio - 1) > 1e-3 else ""
    got, expected = _told_apart(difference.got, difference.expected)
    return Finding(
        "loss-mismatch",
        f"the loss returned in step {difference.step} is {got}, the monolith's is "
        f"{expected}{times}; the gradients are "
        + ("right" if _is_tight(difference) else "as far as rounding may take them"),
        "return the mean over the batch: each microbatch's mean loss weighted by "
        "size / batch.size, added up once",
        ranks=_ranks(difference),
        operations=sites.computed(outcome, _on(difference), "F"),
        details=details,
    )


def _told_apart(one: float, other: float) -> tuple[str, str]:
    """Write two numbers with as many digits as it takes for them to differ, six at least."""
    for digits in (6, 9, 12, 17):
        shown = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if shown[0] != shown[1]:
            break
    return shown


def _parameters(difference: Difference, outcome: Outcome, details: dict[str, Any]) -> Finding:
    ranks = _ranks(difference)
    return Finding(
        "parameter-mismatch",
        f"after step {difference.step} {do(ranks)} not have the parameters that the "
        "optimizer makes of their gradients",
        "leave parameters and their update to the harness's optimizer: the step only accumulates "
        "gradients",
        ranks=ranks,
        operations=sites.computed(outcome, _on(difference), "B"),
        details=details,
    )


def _gradient(
    difference: Difference, outcome: Outcome, case: Case, details: dict[str, Any]
) -> Finding:
    chain, evidence = difference.chain, difference.evidence
    assert evidence is not None
    if (of_ties := tied.explain(difference)) is not None:
        return not_summed(difference, of_ties, outcome, details)
    if len(difference.chains) > 1 and not difference.within_tolerance:
        return _of_two_directions(difference, outcome, case, details)
    if difference.within_tolerance:
        claim, culprit = Claim(note="it differs in the last bits only"), max(difference.stages)
    else:
        claim, culprit = diagnose(difference)
    if claim.each is not None:
        details["each_counts"] = claim.each
    assert case.chunks is not None
    sure, last = False, culprit + 1 == len(chain)
    if claim.kind == "graph-cut":
        operations = sites.cut(outcome, chain[culprit : culprit + 2])
    elif claim.kind in ("stale-batch", "permuted-targets"):  # where the data went in
        operations = sites.computed(outcome, [chain[culprit]], "F")
    elif sure := _is_tight(difference):  # where it began: the stages below only pass it on
        operations = sites.computed(outcome, [chain[culprit]], "B")
    else:  # a stage above may be as wrong, within what rounding explains
        below = [stage for stage in difference.stages if stage < culprit]
        at = _on(difference, [*range(culprit, len(chain)), *below])
        operations = sites.computed(outcome, at, "B")
    seen = advice.seen_in(claim) or claim.note
    if evidence.partition.unfed:
        rows = [r for place in evidence.partition.unfed for r in evidence.partition.rows[place]]
        details["never_fed"] = rows
        seen = f"samples {join(rows)} of {case.batch} never went into the first stage"
    advised = advice.help_for(claim, case.chunks, case.batch or 0)
    if claim.cause == "unknown" and (unlike := unlike_inputs(evidence)) is not None:
        seen, advised = unlike
        operations, last = sites.computed(outcome, chain[:1], "F"), True
    elif claim.cause == "unknown" and last and not claim.note:
        advised = _by_loss(difference, evidence.records[-1].loss) + advised
    if sure and not last:
        mine, above = sites.owner(chain[culprit], chain), sites.owner(chain[culprit + 1], chain)
        gives = "hands" if chain[culprit].rank == chain[culprit + 1].rank else "sends"
        advised = (
            f"{above}'s own gradient is right: begin with what it {gives} back, and with "
            f"what {mine} does with it; {advised}"
        )
    ranks = _ranks(difference)
    return _wrong_gradient(difference, claim, ranks, operations, seen, advised, details)


def _wrong_gradient(
    difference: Difference,
    claim: Claim,
    ranks: tuple[int, ...],
    operations: tuple[Operation, ...],
    seen: str,
    advised: str,
    details: dict[str, Any],
) -> Finding:
    if claim.coefficients:
        details["coefficients"] = list(claim.coefficients)
    return Finding(
        "gradient-mismatch",
        f"the gradient of step {difference.step} on {ranks_text(ranks)} is not the "
        f"monolith's, first in {details['parameter']}" + (f": {seen}" if seen else ""),
        advised,
        ranks=ranks,
        operations=operations,
        cause=claim.cause,
        details=details,
    )


def _of_two_directions(
    difference: Difference, outcome: Outcome, case: Case, details: dict[str, Any]
) -> Finding:
    found = blame(difference, outcome, case.chunks or 1, case.batch or 0)
    details["stage"] = found.stages[0].number
    advised = found.advised
    if found.above and _is_tight(difference):
        right = join(sorted(stage.number for stage in found.above))
        advised = f"the gradients of stages {right} are right: begin below them; {advised}"
    return _wrong_gradient(
        difference, found.claim, found.ranks, found.operations, found.seen, advised, details
    )


def _is_tight(difference: Difference) -> bool:
    """Whether a gradient within the bound is right for sure: in low precision it may be far off."""
    return difference.bound is not None and float(difference.bound.gradient.max()) <= TIGHT


def _by_loss(difference: Difference, loss: float | None) -> str:
    """Say whether the forward is right already, as far as the loss shows it."""
    step, bound = difference.evidence, difference.bound
    if loss is None or step is None or bound is None or bound.loss > TIGHT:
        return ""
    expected = step.loss()
    if abs(loss - expected) <= bound.loss * max(1.0, abs(expected)):
        return "the loss is right: begin with what happens between forward and backward; "
    return (
        f"the loss is wrong as well ({loss:.6g} for {expected:.6g}): begin with the forward, and "
        "with what each rank sends on; "
    )


def _name(difference: Difference) -> str:
    return names_of(difference.chain)[difference.parameter]
