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
from harness.parity.places import defined_at, invalid, place_of
from harness.parity.refusal import is_raised, is_refusal, raised
from harness.parity.results import (
    Raised,
    StageResult,
    StepRecord,
    StepResult,
    pack,
)
from harness.parity.shape import complete, own_stage_workload, users_workload, workload_of
from harness.targets import Target, TargetError, placement_of_step
from harness.targets.loading import user_traceback
from harness.targets.own_model import load_own_model
from harness.worlds import RankContext
from pipeline.actions import Action
from pipeline.comms import Comms
from pipeline.executor import run_step
from pipeline.lower import Policy, default_policy, get_policy, lower
from pipeline.model import Batch, Training, Workload, batch_at
from pipeline.own_model import OwnModelError, Parts
from pipeline.own_stage import build_own
from pipeline.placement import Placement, placement_of
from pipeline.plan import Plan, PlanError, build_plan, validate
from pipeline.stage import Stage, build_batch, build_stages

Step = Callable[[list[Stage], Comms, Batch, int], Any]
"""(stages of this rank, comms, batch, chunks) → the step's mean loss on a last stage's rank."""


@dataclass(frozen=True, slots=True)
class StepEntry:
    """The entry of a world's :class:`~harness.worlds.Program`; gives a :class:`StepResult`."""

    target: Target
    case: Case

    def __call__(self, context: RankContext) -> StepResult:
        """Run the case's steps on this rank."""
        from harness import recorder

        torch.set_num_threads(1)  # the order of additions must not depend on the machine
        with damage_of(self.case, context):
            return run_rank(self.target, self.case, context, recorder.active())


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
    target: Target, case: Case, context: RankContext, reporter: Reporter | None
) -> StepResult:
    """Load the target, build the stages, run the steps; never raises for a refused shape."""
    case = complete(case)
    rank = context.rank
    try:
        function = target.load()
        own = target.load_build_stage()
        parts = load_own_model(target)
    except TargetError as error:
        shown = Raised("TargetError", str(error), traceback=error.traceback)
        return StepResult(rank, unloadable=shown)
    try:
        step, comms, held = _built(target, function, own, parts, case, context)
    except OwnModelError as error:
        trace = user_traceback(error) if error.__cause__ else ""
        shown = Raised("TargetError", f"{target.text}: {error}", traceback=trace)
        return StepResult(rank, unloadable=shown)
    except TargetError as error:
        cause = error.__cause__
        if isinstance(cause, ValueError) and is_raised(cause):  # its placement refuses the world
            return StepResult(rank, refused=raised(cause))
        trace = user_traceback(error) if cause else ""
        shown = Raised("TargetError", f"{target.text}: {error}", traceback=trace)
        return StepResult(rank, unloadable=shown)
    except PlanError as error:
        return invalid(rank, target, error)
    except ValueError as error:
        if is_refusal(error):
            return StepResult(rank, refused=raised(error))
        if target.kind in ("plan", "csv"):
            return StepResult(rank, plan_error=str(error))
        raise
    try:
        result = run_steps(step, held.stages, held.batch, held.workload, comms, case, reporter)
    except PlanError as error:  # of a class that makes its order as it runs
        return invalid(rank, target, error)
    if not any(record.forwards for stage in result.stages for record in stage.steps):
        result = replace(result, defined_at=defined_at(target))
    made = own if parts is None else parts.split or parts.model
    if made is None:
        return result
    at = place_of(made)
    return replace(result, stages=tuple(replace(s, built_at=at) for s in result.stages))


@dataclass(frozen=True, slots=True)
class _Share:
    """What one rank has of what is trained."""

    workload: Training
    stages: list[Stage]
    batch: Batch


def _built(
    target: Target,
    function: Callable[..., Any],
    own: Callable[..., Any] | None,
    parts: Parts | None,
    case: Case,
    context: RankContext,
) -> tuple[Step, Comms, _Share]:
    """Make the step, what it communicates by, and the rank's share of what it trains."""
    workload = workload_of(case)
    if own is not None:
        workload = own_stage_workload(workload)
    _seed(case.seed)
    step, placement = as_step(target, function, case)
    if parts is None:
        stages = _stages(workload, own, context, placement)
        share = _Share(workload, stages, build_batch(workload, stages))
    else:
        users = users_workload(target, parts, case, placement.depth)
        share = _Share(users, *build_own(users, placement, context.rank, context.device))
    return step, Comms(share.workload.dtype, context.device, placement=placement), share


def _seed(seed: int) -> None:
    """Seed torch; where there is only a CPU, without what the other devices take at every call."""
    if torch.cuda.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def as_step(target: Target, function: Callable[..., Any], case: Case) -> tuple[Step, Placement]:
    """Make a step of whatever the target is, and say where its stages are.

    PlanError or ValueError for an invalid plan, TargetError for a placement that cannot be.
    """
    if target.kind == "step":
        if target.multi_stage:
            return function, placement_of_step(function, case.world)
        return on_one_stage(function), Placement.one_each(case.world)
    if target.kind == "torch":
        from harness.parity.torch_schedules import torch_step  # takes much of torch with it

        return torch_step(function, case)
    assert case.chunks is not None
    if target.kind == "schedule":
        found = _rows_of_schedule(target.text, case.world, case.chunks, case.policy, case.mutant)
    else:
        found = _rows(plan_of(target, function, case.world, case.chunks), case.policy, case.mutant)
    rows, policy, placement = found

    def planned(stages: list[Stage], comms: Comms, batch: Batch, chunks: int) -> Tensor | None:
        return run_step(rows[comms.rank], policy, stages, comms, batch, chunks)

    return planned, placement


def plan_of(target: Target, function: Callable[..., Any], world: int, chunks: int) -> Plan:
    """Return the plan of a target that is one; ValueError for a shape that it has not."""
    if target.kind == "schedule":
        return build_plan(target.text, world, chunks)
    if target.kind != "csv":
        return build_plan(function, world, chunks)
    plan: Plan = function()
    if (plan.world, plan.chunks) != (world, chunks):
        raise ValueError(
            f"the plan is of world {plan.world} and {plan.chunks} chunks: got world {world} and "
            f"{chunks} chunks"
        )
    return plan


def on_one_stage(step: Callable[..., Any]) -> Step:
    """Let a step that is given its rank's one stage be called with a list."""

    def with_stage(stages: list[Stage], comms: Comms, batch: Batch, chunks: int) -> Any:
        return step(stages[0], comms, batch, chunks)

    return with_stage


Rows = tuple[tuple[tuple[Action, ...], ...], Policy, Placement]
"""Every rank's actions, with sends and receives, their policy, and the stages' ranks."""


def _rows(plan: Plan, asked: str | None, mutant: str | None) -> Rows:
    policy = get_policy(asked or default_policy(plan))
    if mutant is not None:
        from harness.injection import Injection
        from harness.mutate.plans import PLAN_OPERATORS, mutated

        name = Injection.parse(mutant)
        if name.operator in PLAN_OPERATORS:
            plan = mutated(plan, policy, name)
    validate(plan)
    if plan.forward_only:
        raise ValueError(f"{plan.schedule} has no backwards, so that it trains nothing")
    rows = plan.rows if plan.is_lowered else lower(plan, policy).rows
    return rows, policy, placement_of(plan)


# The ranks of a simulated case ask for the same plan; a user's own function is asked by each.
@functools.lru_cache(maxsize=64)
def _rows_of_schedule(
    name: str, world: int, chunks: int, asked: str | None, mutant: str | None
) -> Rows:
    return _rows(build_plan(name, world, chunks), asked, mutant)


def run_steps(
    step: Step,
    stages: list[Stage],
    batch: Batch,
    workload: Training,
    comms: Comms,
    case: Case,
    reporter: Reporter | None = None,
) -> StepResult:
    """Run a case's steps on a rank's stages, with the harness's optimizer; keep every number.

    ``batch`` is what the rank sees of the first step's.
    """
    case = complete(case)
    assert case.steps is not None
    assert case.chunks is not None
    held = [_Held(stage, reporter) for stage in stages]
    # Stages of one rank may share one.
    parameters = list(dict.fromkeys(p for one in held for p in one.parameters))
    optimizer = workload.optimizer_for(parameters) if parameters else None
    try:
        for number in range(case.steps):
            for parameter in parameters:
                parameter.grad = None
            given = batch_at(workload, number, batch)
            for one in held:
                one.observer.start_step(given.inputs)
            comms.start_step()
            try:
                loss = step(stages, comms, given, case.chunks)
            except ValueError as error:
                if number or not is_refusal(error):
                    raise
                return StepResult(comms.rank, refused=raised(error))
            for one in held:
                one.keep_gradients()
            if optimizer is not None:
                optimizer.step()
            for one in held:
                one.keep(loss)
    finally:
        for one in held:
            one.observer.remove()
    return StepResult(comms.rank, tuple(one.result(comms.rank) for one in held))


class _Held:
    """One of a rank's stages, and what is kept of it."""

    def __init__(self, stage: Stage, reporter: Reporter | None) -> None:
        self.stage = stage
        self.parameters = list(stage.parameters())
        self.observer = Observer(stage, reporter)
        self._layout = tuple((name, tuple(p.shape)) for name, p in stage.named_parameters())
        self._initial = pack(self.parameters, self.parameters)
        self._gradient = b""
        self._absent: tuple[int, ...] = ()
        self._records: list[StepRecord] = []

    def keep_gradients(self) -> None:
        """Keep what a step accumulated: the optimizer may change it."""
        gradients = [parameter.grad for parameter in self.parameters]
        self._gradient = pack(gradients, self.parameters)
        self._absent = tuple(place for place, g in enumerate(gradients) if g is None)

    def keep(self, loss: Any) -> None:
        """Keep the rest of a step, of which the target returned ``loss``."""
        value, wrong = _loss_of(loss) if self.stage.is_last else (None, None)
        seen = self.observer.seen
        self._records.append(
            StepRecord(
                gradient=self._gradient,
                parameters=pack(self.parameters, self.parameters),
                absent=self._absent,
                loss=value,
                loss_type=wrong,
                forwards=tuple(seen.forwards),
                backwards=tuple(seen.backwards),
                weights=tuple(seen.weights),
                fed=tuple(seen.fed),
                unlike=tuple(sorted(seen.unlike)),
                stale=tuple(sorted(seen.stale)),
                aimed=tuple(seen.aimed),
            )
        )

    def result(self, rank: int) -> StageResult:
        """Return everything."""
        steps = tuple(self._records)
        return StageResult(
            rank, self.stage.number, self.stage.index, self._layout, self._initial, steps
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


def _stages(
    workload: Workload,
    own: Callable[..., Any] | None,
    context: RankContext,
    placement: Placement,
) -> list[Stage]:
    if own is None:
        return build_stages(workload, placement, context.rank, context.device)
    count = placement.depth
    stages = []
    for number in placement.held_by(context.rank):
        index = placement.slice_of(number)
        module = own(index, count, workload.layers, workload.width)
        if not isinstance(module, nn.Module):
            given = type(module).__name__
            raise TypeError(f"build_stage returned a {given}; expected an nn.Module")
        module = module.to(workload.dtype)
        stages.append(Stage([module], index, count, workload, context.device, number))
    return stages
