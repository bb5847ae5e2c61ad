from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.actions import Kind
from pipeline.dependencies import results
from pipeline.lower import POLICIES, batches, default_policy, get_policy, lower
from pipeline.plan import Plan, build_plan, validate
from pipeline.schedules import SCHEDULES
from tests.pipeline.rendezvous import DeadlockError, run
from tests.pipeline.strategies import accepted, any_valid_plans, plans

policies = st.sampled_from(list(POLICIES))
asynchronous = st.sampled_from(["isend", "async", "batched"])


@given(plans(), policies)
def test_a_lowered_plan_is_valid_and_computes_the_same(plan: Plan, policy: str) -> None:
    lowered = lower(plan, policy)
    validate(lowered)
    for before, after in zip(plan.rows, lowered.rows, strict=True):
        assert before == tuple(action for action in after if action.kind.is_compute)


@given(plans(), policies)
def test_every_send_has_its_receive(plan: Plan, policy: str) -> None:
    ends = Counter(a for row in lower(plan, policy).rows for a in row if a.kind.is_comm)
    assert all(count == 1 and ends[action.other_end] == 1 for action, count in ends.items())
    per_stage = plan.stages // plan.directions
    crossed = sum(
        len(plan.microbatches(stage))
        for stage in range(plan.stages - 1)
        if (stage + 1) % per_stage and plan.rank_of(stage) != plan.rank_of(stage + 1)
    )
    assert len(ends) == crossed * (2 if plan.forward_only else 4)


@given(plans(), policies)
def test_what_is_inserted_comes_from_the_line_of_its_compute(plan: Plan, policy: str) -> None:
    for before, after in zip(plan.rows, lower(plan, policy).rows, strict=True):
        origins = {made: action.origin for action in before for made in results(action)}
        for action in after:
            if action.kind.is_comm:
                kind = Kind.F if action.kind in (Kind.SEND_F, Kind.RECV_F) else Kind.B
                assert action.origin is origins[action.stage, kind, action.microbatch]


@given(plans(), st.sampled_from(["async", "batched"]))
def test_no_schedule_hangs_on_gloo(plan: Plan, policy: str) -> None:
    run(lower(plan, policy), POLICIES[policy])


@pytest.mark.parametrize("name", SCHEDULES)
def test_no_schedule_hangs_on_gloo_at_any_shape(name: str) -> None:
    """Under the default policy, which is the one that is exhaustively safe on NCCL too."""
    for world, chunks in accepted(name, 8, 16):
        run(lower(build_plan(name, world, chunks)), POLICIES["batched"])


@given(plans(one_stage=True), asynchronous)
def test_policies_that_let_messages_cross_never_hang_on_gloo(plan: Plan, policy: str) -> None:
    run(lower(plan, policy), POLICIES[policy])


@given(any_valid_plans(), st.sampled_from(["async", "batched"]))
def test_any_valid_plan_runs_and_no_message_is_swapped(plan: Plan, policy: str) -> None:
    lowered = lower(plan, policy)
    validate(lowered)
    run(lowered, POLICIES[policy])


@pytest.mark.parametrize("name", ["naive", "gpipe"])
@given(world=st.integers(1, 8), chunks=st.integers(1, 32))
def test_blocking_sends_are_enough_for_naive_and_gpipe(name: str, world: int, chunks: int) -> None:
    run(lower(build_plan(name, world, chunks), "blocking"), POLICIES["blocking"])


@given(world=st.integers(2, 8), chunks=st.integers(2, 32))
def test_1f1b_hangs_with_blocking_sends(world: int, chunks: int) -> None:
    with pytest.raises(DeadlockError) as hang:
        run(lower(build_plan("1f1b", world, chunks), "blocking"), POLICIES["blocking"])
    assert {Kind.SEND_F, Kind.SEND_B} <= {action.kind for action in hang.value.stuck.values()}


def test_1f1b_with_blocking_sends_is_fine_where_nothing_crosses() -> None:
    for world, chunks in ((1, 4), (2, 1), (4, 1)):
        run(lower(build_plan("1f1b", world, chunks), "blocking"), POLICIES["blocking"])


def test_blocking_communicates_right_beside_the_work() -> None:
    assert lower(build_plan("gpipe", 2, 2), "blocking").grid().splitlines() == [
        "step    0         1         2         3         4         5         6         7",
        "rank 0  0F0       0SEND_F0  0F1       0SEND_F1  0RECV_B0  0B0       0RECV_B1  0B1",
        "rank 1  1RECV_F0  1F0       1RECV_F1  1F1       1B0       1SEND_B0  1B1       1SEND_B1",
    ]


def test_async_posts_receives_two_actions_ahead() -> None:
    row = lower(build_plan("gpipe", 2, 3), "async").rows[1]
    assert " ".join(map(str, row[:5])) == "1RECV_F0 1RECV_F1 1RECV_F2 1F0 1F1"


def test_batched_exchanges_what_crosses_between_the_same_two_computes() -> None:
    lowered = lower(build_plan("1f1b", 2, 3), "batched")
    assert [" ".join(map(str, row)) for row in lowered.rows] == [
        "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0F2 0SEND_F2 0RECV_B1 0B1 0RECV_B2 0B2",
        "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1RECV_F2 1SEND_B1 1F2 1B2 1SEND_B2",
    ]
    batches_ = [list(map(str, each)) for each in batches(lowered.rows[1], POLICIES["batched"])]
    assert ["1RECV_F2", "1SEND_B1"] in batches_


def test_what_is_lowered_already_waits_for_a_message_where_it_is_used() -> None:
    plan = build_plan("1f1b", 2, 2)
    assert default_policy(plan) == "batched"
    assert default_policy(lower(plan)) == "async"


def test_a_plan_that_cannot_go_on_is_lowered_all_the_same() -> None:
    backward_first = Plan.from_csv("0B0,0F0\n1F0,1B0\n")
    assert [" ".join(map(str, row)) for row in lower(backward_first).rows] == [
        "0RECV_B0 0B0 0F0 0SEND_F0",
        "1RECV_F0 1F0 1B0 1SEND_B0",
    ]


def test_lowering_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="has sends and receives already"):
        lower(lower(build_plan("gpipe", 2, 2)))


def test_an_unknown_policy_is_refused_with_the_known_names() -> None:
    with pytest.raises(ValueError, match="'eager'; known: blocking, isend, async, batched"):
        get_policy("eager")
