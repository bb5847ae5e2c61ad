import gc
import weakref
from dataclasses import dataclass

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from pipeline.actions import CURRENT, Action, Kind
from pipeline.comms import Comms
from pipeline.executor import StepProfile, run_step
from pipeline.lower import POLICIES, lower
from pipeline.model import Batch, Monolith, Workload, chunk_sizes
from pipeline.placement import placement_of
from pipeline.plan import Plan, build_plan, peak_in_flight
from pipeline.schedules import SCHEDULES
from pipeline.stage import Stage, build_batch, build_stage, build_stages
from tests.pipeline.threads import Transport, run_ranks

WITH_BACKWARD = tuple(name for name, schedule in SCHEDULES.items() if not schedule.forward_only)


@dataclass(frozen=True)
class Shape:
    """What one example of a step is decided by."""

    plan: Plan
    policy: str
    workload: Workload


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    schedule = SCHEDULES[draw(st.sampled_from(WITH_BACKWARD))]
    world = draw(st.integers(1, 4))
    chunks = draw(st.integers(1, 8))
    assume(not schedule.refusal(world, chunks))
    plan = build_plan(schedule, world, chunks)
    depth = plan.stages // plan.directions
    workload = Workload(
        kind=draw(st.sampled_from(["seed", "conditioned"])),
        layers=depth + draw(st.integers(0, 3)),
        width=draw(st.integers(2, 12)),
        classes=3,
        batch=draw(st.integers(chunks, 12)),
        dtype=draw(st.sampled_from([torch.float32, torch.float64, torch.bfloat16])),
    )
    return Shape(plan, draw(st.sampled_from(list(POLICIES))), workload)


@dataclass
class RankStep:
    loss: Tensor | None
    gradients: dict[tuple[int, str], Tensor]
    peak: int


def run_steps(shape: Shape, steps: int = 1) -> tuple[list[RankStep], Transport]:
    lowered = lower(shape.plan, shape.policy)
    workload, world = shape.workload, shape.plan.world
    placement = placement_of(shape.plan)
    # Built one after the other: the threads share one random state.
    held = [build_stages(workload, placement, rank) for rank in range(world)]
    batches = [build_batch(workload, stages) for stages in held]

    def body(rank: int) -> RankStep:
        row, stages, batch, profile = lowered.rows[rank], held[rank], batches[rank], StepProfile()
        comms = Comms(workload.dtype, placement=placement)
        for _ in range(steps):
            for stage in stages:
                stage.zero_grad()
            loss = run_step(row, shape.policy, stages, comms, batch, shape.plan.chunks, profile)
        assert CURRENT.get() is None
        gradients = {
            (stage.number, stage.monolith_name(name)): parameter.grad
            for stage in stages
            for name, parameter in stage.named_parameters()
            if parameter.grad is not None
        }
        return RankStep(loss, gradients, profile.peak_in_flight)

    return run_ranks(shape.plan.world, body)


def orders(plan: Plan, stage: int, kinds: tuple[Kind, ...]) -> list[int]:
    """Return the microbatches of a stage in the order of its actions of these kinds."""
    row = plan.rows[plan.rank_of(stage)]
    parts = [part for action in row for part in action.parts]
    return [p.microbatch for p in parts if p.stage == stage and p.kind in kinds]


def monolith(shape: Shape, order: list[int]) -> tuple[Tensor, dict[str, Tensor]]:
    model = Monolith(shape.workload)
    loss = model.step_microbatched(order, chunk_sizes(shape.workload.batch, shape.plan.chunks))
    return loss, {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


@settings(max_examples=120)
@given(shapes())
def test_a_step_is_bitwise_the_monolith_s_microbatched_one(shape: Shape) -> None:
    ranks, transport = run_steps(shape, steps=2)
    plan = shape.plan
    placement = placement_of(plan)
    lasts = [stage for stage in range(plan.stages) if placement.is_last(stage)]
    loss = sum(monolith(shape, orders(plan, last, (Kind.B, Kind.I)))[0] for last in lasts)
    for rank, step in enumerate(ranks):
        assert (step.loss is not None) == any(plan.rank_of(last) == rank for last in lasts)
        assert step.loss is None or torch.equal(step.loss, torch.as_tensor(loss))
    found = {key: grad for rank in ranks for key, grad in rank.gradients.items()}
    for stage in range(plan.stages):
        halves = [
            monolith(shape, orders(plan, copy, (Kind.B, Kind.W)))[1]
            for copy in placement.copies(stage)
        ]
        names = [name for number, name in found if number == stage]
        assert len(names) >= 2
        for name in names:
            right = sum((half[name] for half in halves[1:]), start=halves[0][name])
            assert torch.equal(found[stage, name], right)
    assert {name for _, name in found} == set(halves[0])
    assert all(call.waited for call in transport.calls)


@settings(max_examples=25)
@given(shapes())
def test_no_rank_holds_more_than_its_plan_says(shape: Shape) -> None:
    ranks, _ = run_steps(shape)
    assert tuple(rank.peak for rank in ranks) == peak_in_flight(shape.plan)


@pytest.mark.parametrize("policy", ["async", "batched"])
def test_every_message_is_labelled_with_its_action(policy: str) -> None:
    shape = Shape(build_plan("1f1b", 3, 4), policy, Workload.conditioned())
    _, transport = run_steps(shape)
    for rank, row in enumerate(lower(shape.plan, policy).rows):
        labels = [call.action for call in transport.calls if call.rank == rank]
        assert labels == [action for action in row if action.kind.is_comm]


@pytest.mark.parametrize(
    ("policy", "operations"),
    [
        ("blocking", {"send", "recv"}),
        ("isend", {"isend", "send", "recv"}),
        ("async", {"isend", "irecv"}),
        ("batched", {"isend", "irecv"}),
    ],
)
def test_a_policy_decides_which_calls_are_made(policy: str, operations: set[str]) -> None:
    shape = Shape(build_plan("gpipe", 2, 2), policy, Workload.conditioned())
    _, transport = run_steps(shape)
    assert {call.operation for call in transport.calls} == operations
    assert {call.batched for call in transport.calls} == {policy == "batched"}


def run_alone(row: str, stage: Stage, batch: Batch) -> None:
    actions = [Action.parse(text) for text in row.split()]
    run_ranks(1, lambda rank: run_step(actions, "async", stage, Comms(stage.dtype), batch, 2))


def test_an_action_on_a_stage_that_is_not_here_is_refused() -> None:
    workload = Workload.conditioned()
    stage = build_stage(workload, 0, 1)
    with pytest.raises(ValueError, match="1F0 is on a rank that holds stage 0"):
        run_alone("0F0 1F0", stage, build_batch(workload, stage))


def test_a_row_without_its_receives_is_refused() -> None:
    stage = build_stage(Workload.conditioned(), 1, 3)
    with pytest.raises(ValueError, match="1RECV_F0 is missing before 1F0: lower the plan first"):
        run_alone("1F0 1B0", stage, Batch(16, None, None))


def test_a_send_without_data_is_refused() -> None:
    workload = Workload.conditioned()
    stage = build_stage(workload, 0, 2)
    with pytest.raises(ValueError, match="0SEND_F1 comes before what makes its data"):
        run_alone("0SEND_F1", stage, build_batch(workload, stage))


def test_a_batch_with_a_message_that_cannot_be_sent_names_it() -> None:
    workload = Workload.conditioned()
    stage, batch = build_stage(workload, 0, 2), build_batch(workload, build_stage(workload, 0, 2))
    actions = [Action.parse(text) for text in ["0F0", "0SEND_F0", "0RECV_B0"]]
    with pytest.raises(TypeError) as error:  # rank 0 of 1 has nobody to send to
        run_ranks(1, lambda rank: run_step(actions, "batched", stage, Comms(), batch, 2))
    assert error.value.__notes__ == ["in 0SEND_F0"]
    assert CURRENT.get() is None


def test_a_failing_step_names_its_action_and_lets_go_of_its_activations() -> None:
    workload = Workload.conditioned()
    stage = build_stage(workload, 0, 2)
    activations: list[weakref.ref[Tensor]] = []
    stage.register_forward_hook(lambda module, args, y: activations.append(weakref.ref(y)))
    with pytest.raises(TypeError) as error:  # rank 0 of 1 has nobody to send to
        run_alone("0F0 0F1 0SEND_F1", stage, build_batch(workload, stage))
    assert error.value.__notes__ == ["in 0SEND_F1"]
    gc.collect()
    alive = [activation() is not None for activation in activations]
    assert alive == [False, True]  # the traceback itself holds what was being sent
