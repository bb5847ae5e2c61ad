import gc
import weakref
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pipeline.actions import CURRENT, Action
from pipeline.comms import Comms
from pipeline.executor import StepProfile, run_step
from pipeline.lower import POLICIES, lower
from pipeline.model import Batch, Monolith, Workload, chunk_sizes
from pipeline.plan import Plan, build_plan, peak_in_flight
from pipeline.schedules import RUNNABLE
from pipeline.stage import Stage, build_batch, build_stage
from tests.pipeline.threads import Transport, run_ranks


@dataclass(frozen=True)
class Shape:
    """What one example of a step is decided by."""

    plan: Plan
    policy: str
    workload: Workload


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    world = draw(st.integers(1, 4))
    chunks = draw(st.integers(1, 8))
    workload = Workload(
        kind=draw(st.sampled_from(["seed", "conditioned"])),
        layers=draw(st.integers(world, 7)),
        width=draw(st.integers(2, 12)),
        classes=3,
        batch=draw(st.integers(chunks, 12)),
        dtype=draw(st.sampled_from([torch.float32, torch.float64, torch.bfloat16])),
    )
    plan = build_plan(draw(st.sampled_from(RUNNABLE)), world, chunks)
    return Shape(plan, draw(st.sampled_from(list(POLICIES))), workload)


@dataclass
class RankStep:
    loss: Tensor | None
    gradients: dict[str, Tensor]
    peak: int


def run_steps(shape: Shape, steps: int = 1) -> tuple[list[RankStep], Transport]:
    lowered = lower(shape.plan, shape.policy)
    workload, world = shape.workload, shape.plan.world
    # Built one after the other: the threads share one random state.
    stages = [build_stage(workload, rank, world) for rank in range(world)]
    batches = [build_batch(workload, stage) for stage in stages]

    def body(rank: int) -> RankStep:
        row, stage, batch, profile = lowered.rows[rank], stages[rank], batches[rank], StepProfile()
        comms = Comms(workload.dtype)
        for _ in range(steps):
            stage.zero_grad()
            loss = run_step(row, shape.policy, stage, comms, batch, shape.plan.chunks, profile)
        assert CURRENT.get() is None
        gradients = {
            stage.monolith_name(name): parameter.grad
            for name, parameter in stage.named_parameters()
            if parameter.grad is not None
        }
        return RankStep(loss, gradients, profile.peak_in_flight)

    return run_ranks(shape.plan.world, body)


@settings(max_examples=60)
@given(shapes())
def test_a_step_is_bitwise_the_monolith_s_microbatched_one(shape: Shape) -> None:
    ranks, transport = run_steps(shape, steps=2)
    monolith = Monolith(shape.workload)
    sizes = chunk_sizes(shape.workload.batch, shape.plan.chunks)
    loss = monolith.step_microbatched(range(shape.plan.chunks), sizes)
    assert [rank.loss is None for rank in ranks] == [True] * (shape.plan.world - 1) + [False]
    assert ranks[-1].loss is not None
    assert torch.equal(ranks[-1].loss, loss)
    found = {name: grad for rank in ranks for name, grad in rank.gradients.items()}
    assert list(found) == [name for name, _ in monolith.named_parameters()]
    for name, parameter in monolith.named_parameters():
        assert parameter.grad is not None
        assert torch.equal(found[name], parameter.grad)
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


def test_an_action_that_cannot_be_run_is_refused_with_those_that_can() -> None:
    workload = Workload.conditioned()
    stage = build_stage(workload, 0, 1)
    with pytest.raises(ValueError, match=r"the executor runs F B SEND_F SEND_B .*: got 0I0"):
        run_alone("0F0 0I0 0W0", stage, build_batch(workload, stage))


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
