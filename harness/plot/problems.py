"""A plan's problems as a finding, and as text."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case import Case
from harness.findings import Finding
from harness.plot.placed import Placed
from harness.report.text import count, shown_path
from pipeline.plan import PlanError

SHOWN = 8


def findings_of(placed: Placed, target: str | None) -> list[Finding]:
    """Return what ``harness check`` would find: one finding for all of the plan's problems.

    ``target`` is what a case would name, to run it again; None where a case cannot.
    """
    if not placed.problems:
        return []
    # These import torch, which a valid plan's plot does without.
    from harness.checkers.parity import invalid_plan
    from harness.parity.program import problems_of
    from harness.parity.results import StepResult

    error = PlanError(placed.plan, placed.problems)
    result = StepResult(0, problems=problems_of(error), plan_error=str(error))
    finding = invalid_plan(result)
    if target is None:
        return [finding]
    case = Case(target, placed.plan.world, chunks=placed.plan.chunks)
    return [finding.with_(case=str(case))]


def problem_lines(placed: Placed, finding: Finding) -> Iterator[str]:
    """Yield the problems as text, the first few, each with its line of source."""
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
