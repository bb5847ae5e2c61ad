"""What is wrong with a plan, as findings and as text."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case import Case
from harness.findings import Finding
from harness.plot.figures import Figures
from harness.plot.placed import Placed
from harness.report.text import count, render_finding, shown_path
from pipeline.plan import PlanError

SHOWN = 8


def findings_of(placed: Placed, figures: Figures, target: str | None) -> list[Finding]:
    """Return what is wrong: one finding for all of the plan's problems, as ``harness check`` has.

    Of a valid plan, what it does under each semantics. ``target`` is what a case would name, to
    run it again; None where a case cannot.
    """
    verdicts = figures.verdicts
    found = [_invalid(placed)] if verdicts is None else list(verdicts.findings)
    if target is None or not found:
        return found
    policy = None if verdicts is None else verdicts.policy
    case = Case(target, placed.plan.world, chunks=placed.plan.chunks, policy=policy)
    return [finding.with_(case=str(case)) for finding in found]


def _invalid(placed: Placed) -> Finding:
    # These import torch, which a valid plan's plot does without.
    from harness.checkers.parity import invalid_plan
    from harness.parity.places import problems_of
    from harness.parity.results import StepResult

    error = PlanError(placed.plan, placed.problems)
    result = StepResult(0, problems=problems_of(error), plan_error=str(error))
    return invalid_plan(result)


def finding_lines(placed: Placed, finding: Finding) -> Iterator[str]:
    """Yield a finding as text, of a plan's problems the first few, each with its line of source."""
    if finding.code != "plan-invalid":
        yield from render_finding(finding).splitlines()
        return
    problems = placed.problems
    name = placed.plan.schedule
    yield f"error[{finding.code}]: {name} cannot run: {count(len(problems), 'problem')}"
    for problem in problems[:SHOWN]:
        at = problem.origin
        where = f"   {shown_path(at.file)}:{at.line}" if at else ""
        yield f"  rank {problem.rank}: {problem.action} {problem.reason}{where}"
    if (more := len(problems) - SHOWN) > 0:
        yield f"  … and {more} more"
    yield f"help: {finding.help}"
