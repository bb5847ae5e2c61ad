"""Where a user's target begins: the place of what has no line of its own, as it was never done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from harness.parity.results import PlanProblem, StepResult
from harness.targets import Target
from harness.targets.torch_classes import line_of
from harness.trace import Frame
from pipeline.plan import PlanError


def place_of(function: Callable[..., Any]) -> Frame:
    """Return where a function begins; line 0 where that is not known."""
    code = getattr(function, "__code__", None)
    if code is None:
        return Frame("<unknown>", 0, getattr(function, "__name__", "build_stage"))
    return Frame(code.co_filename, code.co_firstlineno, code.co_name)


def defined_at(target: Target) -> Frame | None:
    """Return where a user's own step, plan or class begins; None where no line is known."""
    if target.kind == "torch":
        origin = line_of(cast("type", target.load_function()))
        at = Frame(origin.file, origin.line, origin.function)
    elif target.kind in ("step", "plan"):
        at = place_of(target.load_function())
    else:
        return None
    return at if at.line else None


def invalid(rank: int, target: Target, error: PlanError) -> StepResult:
    """Return what a rank has to say of a plan that cannot run."""
    problems = problems_of(error, defined_at(target))
    return StepResult(rank, problems=problems, plan_error=str(error))


def problems_of(error: PlanError, whole: Frame | None = None) -> tuple[PlanProblem, ...]:
    """Return a plan's problems as plain values; of what is missing the place of the whole."""
    places = [(p, p.origin or whole) for p in error.problems]
    return tuple(
        PlanProblem(p.rank, str(p.action), p.reason, *((o.file, o.line, o.function) if o else ()))
        for p, o in places
    )
