"""What a rank of a parity case runs: some training steps of the target, every number kept.

A shape is *refused* when ``ValueError`` is raised in the first step, on every rank, by a ``raise``
in the target's own code or by the model's and the plan's checks of shapes (``pipeline.model``,
``pipeline.plan``). A ``ValueError`` from anywhere else (a builtin, torch, comms, the executor) is
an error of that rank. One rank alone cannot know of the others: it brings the refusal back as a
result, and :func:`harness.parity.refusal.settle` turns one that is not everybody's into that
rank's error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from harness.case import Case
from harness.parity.observe import Observer, Reporter
from harness.parity.refusal import is_refusal, raised
from harness.parity.results import PlanProblem, Raised, StepRecord, StepResult, pack
from harness.parity.shape import complete, own_stage_workload, workload_of
from harness.targets import Target, TargetError
from harness.trace import Frame
from harness.worlds import RankContext
from pipeline.actions import Action
from pipeline.comms import Comms
from pipeline.executor import run_step
from pipeline.lower import Policy, default_policy, get_policy, lower
from pipeline.model import Batch, Workload, make_optimizer
from pipeline.plan import PlanError, build_plan, validate
from pipeline.stage import Stage, build_batch, build_stage

Step = Callable[[Stage, Comms, Batch, int], Any]
"""(stage, comms, batch, chunks) → the step's mean loss on the last stage's rank."""


@dataclass(frozen=True, slots=True)
class StepEntry:
    """The entry of a world's :class:`~harness.worlds.Program`; gives a :class:`StepResult`."""

    target: Target
    case: Case

    def __call__(self, context: RankContext) -> StepResult:
        """Run the case's steps on this rank."""
        from harness import recorder

        torch.set_num_threads(1)  # the order of additions must not depend on the machine
        workload = workload_of(self.case)
        comms = Comms(workload.dtype, context.device)
        with damage_of(self.case, context):
            return run_rank(self.target, self.case, context, comms, recorder.active())


def damage_of(case: Case, context: RankContext) -> AbstractContextManager[None]:
    """Return the block in which a mutant's calls are damaged; a plan's is so already."""
    if case.mutant is None:
        return nullcontext()
    from harness.injection import Injection
    from harness.mutate.calls import OPERATORS, damaged

    name = Injection.parse(case.mutant)
    if name.operator not in OPERATORS:
        return nullcontext()
    return damaged(name, context.rank, context.world_size, case.chunks or 1)


def run_rank(
    target: Target,
    case: Case,
    context: RankContext,
    comms: Comms,
    reporter: Reporter | None,
) -> StepResult:
    """Load the target, build the stage, run the steps; never raises for a refused shape."""
    case = complete(case)
    rank = context.rank
    try:
        function = target.load()
        own = target.load_build_stage()
    except TargetError as error:
        shown = Raised("TargetError", str(error), traceback=error.traceback)
        return StepResult(rank, unloadable=shown)
    try:
        workload = workload_of(case)
        if own is not None:
            workload = own_stage_workload(workload)
        _seed(workload.seed)
        stage = _stage(workload, own, context)
        step = as_step(target, function, case)
    except PlanError as error:
        return StepResult(rank, problems=problems_of(error), plan_error=str(error))
    except ValueError as error:
        if is_refusal(error):
            return StepResult(rank, refused=raised(error))
        if target.kind == "plan":
            return StepResult(rank, plan_error=str(error))
        raise
    batch = build_batch(workload, stage)
    result = run_steps(step, stage, batch, workload, comms, case, reporter)
    return result if own is None else replace(result, built_at=_place(own))


def _seed(seed: int) -> None:
    """Seed torch; where there is only a CPU, without what the other devices take at every call."""
    if torch.cuda.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def as_step(target: Target, function: Callable[..., Any], case: Case) -> Step:
    """Make a step of whatever the target is; PlanError or ValueError for an invalid plan."""
    if target.kind == "step":
        return function
    assert case.chunks is not None
    make = _rows_of_schedule if target.kind == "schedule" else _rows
    schedule = target.text if target.kind == "schedule" else function
    rows, policy = make(schedule, case.world, case.chunks, case.policy, case.mutant)

    def planned(stage: Stage, comms: Comms, batch: Batch, chunks: int) -> Tensor | None:
        return run_step(rows[comms.rank], policy, stage, comms, batch, chunks)

    return planned


def _rows(
    schedule: str | Callable[..., Any],
    world: int,
    chunks: int,
    asked: str | None,
    mutant: str | None,
) -> tuple[tuple[tuple[Action, ...], ...], Policy]:
    """Return every rank's actions, with sends and receives, and the policy that they follow."""
    plan = build_plan(schedule, world, chunks)
    policy = get_policy(asked or default_policy(plan))
    if mutant is not None:
        from harness.injection import Injection
        from harness.mutate.plans import PLAN_OPERATORS, mutated

        name = Injection.parse(mutant)
        if name.operator in PLAN_OPERATORS:
            plan = mutated(plan, policy, name)
    validate(plan)
    return plan.rows if plan.is_lowered else lower(plan, policy).rows, policy


# The ranks of a simulated case ask for the same plan; a user's own function is asked by each.
_rows_of_schedule = functools.lru_cache(maxsize=64)(_rows)


def run_steps(
    step: Step,
    stage: Stage,
    batch: Batch,
    workload: Workload,
    comms: Comms,
    case: Case,
    reporter: Reporter | None = None,
) -> StepResult:
    """Run a case's steps on a stage, with the harness's optimizer, and keep every number."""
    case = complete(case)
    assert case.steps is not None
    assert case.chunks is not None
    parameters = list(stage.parameters())
    layout = tuple((name, tuple(p.shape)) for name, p in stage.named_parameters())
    initial = pack(parameters, parameters)
    optimizer = make_optimizer(workload, parameters) if parameters else None
    observer = Observer(stage, batch.inputs, reporter)
    records: list[StepRecord] = []
    try:
        for _ in range(case.steps):
            for parameter in parameters:
                parameter.grad = None
            observer.start_step()
            comms.start_step()
            try:
                loss = step(stage, comms, batch, case.chunks)
            except ValueError as error:
                if records or not is_refusal(error):
                    raise
                return StepResult(comms.rank, refused=raised(error))
            gradients = [parameter.grad for parameter in parameters]
            packed = pack(gradients, parameters)
            if optimizer is not None:
                optimizer.step()
            records.append(_record(stage, observer, loss, gradients, packed, parameters))
    finally:
        observer.remove()
    return StepResult(comms.rank, layout, initial, tuple(records))


def _record(
    stage: Stage,
    observer: Observer,
    loss: Any,
    gradients: list[Tensor | None],
    packed: bytes,
    parameters: list[nn.Parameter],
) -> StepRecord:
    value, wrong = _loss_of(loss) if stage.is_last else (None, None)
    seen = observer.seen
    return StepRecord(
        gradient=packed,
        parameters=pack(parameters, parameters),
        absent=tuple(place for place, g in enumerate(gradients) if g is None),
        loss=value,
        loss_type=wrong,
        forwards=tuple(seen.forwards),
        backwards=tuple(seen.backwards),
        fed=tuple(seen.fed),
        aimed=tuple(seen.aimed),
    )


def _loss_of(loss: Any) -> tuple[float | None, str | None]:
    """Return the loss as a number, or what it is instead of one."""
    if loss is None:
        return None, None
    if isinstance(loss, Tensor):
        if loss.numel() == 1 and not loss.is_complex():
            return float(loss.detach()), None
        return None, f"a tensor of shape {tuple(loss.shape)}"
    if isinstance(loss, int | float) and not isinstance(loss, bool):
        return float(loss), None
    return None, f"a {type(loss).__name__}"


def _stage(workload: Workload, own: Callable[..., Any] | None, context: RankContext) -> Stage:
    index, count = context.rank, context.world_size
    if own is None:
        return build_stage(workload, index, count, context.device)
    module = own(index, count, workload.layers, workload.width)
    if not isinstance(module, nn.Module):
        raise TypeError(f"build_stage returned a {type(module).__name__}; expected an nn.Module")
    return Stage([module.to(workload.dtype)], index, count, workload, context.device)


def _place(function: Callable[..., Any]) -> Frame:
    code = getattr(function, "__code__", None)
    if code is None:
        return Frame("<unknown>", 0, "build_stage")
    return Frame(code.co_filename, code.co_firstlineno, code.co_name)


def problems_of(error: PlanError) -> tuple[PlanProblem, ...]:
    """Return a plan's problems as plain values."""
    return tuple(
        PlanProblem(p.rank, str(p.action), p.reason, *((o.file, o.line, o.function) if o else ()))
        for p in error.problems
        for o in [p.origin]
    )
