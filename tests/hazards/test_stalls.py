"""Verdicts over numbers, against those that go through the scripts operation by operation."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from random import Random
from typing import cast

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.hazards.explain import replay_of
from harness.hazards.messages import Messages
from harness.hazards.queues import Semantics
from harness.hazards.replay import Replay
from harness.hazards.stalls import BUFFERED, GLOO, Condition, find_stalls
from harness.hazards.tangle import find_tangle
from harness.hazards.verdicts import judge
from pipeline.lower import POLICIES, lower
from pipeline.plan import Plan, build_plan
from tests.hazards.scripts_of_plans import plan_scripts
from tests.pipeline.rendezvous import DeadlockError, run
from tests.pipeline.strategies import any_valid_plans, plans

policies = st.sampled_from(sorted(POLICIES))


@st.composite
def shuffled_plans(draw: st.DrawFn) -> tuple[Plan, str]:
    """Draw a lowered plan with some of its actions exchanged or lost."""
    policy = draw(policies)
    plan = lower(draw(any_valid_plans() | plans(max_chunks=6)), draw(policies))
    random = Random(draw(st.integers(0, 1000)))
    rows = [list(row) for row in plan.rows]
    for _ in range(draw(st.integers(0, 4))):
        row = random.choice(rows)
        if len(row) > 1:
            at, to = (random.randrange(len(row)) for _ in range(2))
            row[at], row[to] = row[to], row[at]
    if draw(st.booleans()) and (row := random.choice(rows)):
        row.pop(random.randrange(len(row)))
    return replace(plan, rows=tuple(map(tuple, rows))), policy


def finishes(plan: Plan, policy: str, condition: Condition) -> bool:
    """Go through a plan's scripts, or run it on the model of gloo."""
    if condition in (GLOO, BUFFERED):
        try:
            run(plan, POLICIES[policy], buffered=condition == BUFFERED)
        except DeadlockError:
            return False
        except AssertionError:
            assume(False)
        return True
    semantics, capacity = condition
    return Replay(plan_scripts(plan, policy), cast(Semantics, semantics), capacity).finishes


@given(shuffled_plans())
@settings(max_examples=150)
def test_a_plan_stalls_where_its_scripts_do(drawn: tuple[Plan, str]) -> None:
    plan, policy = drawn
    for condition, stall in find_stalls(Messages(plan, policy)).items():
        assert (stall is None) == finishes(plan, policy, condition), condition


@given(shuffled_plans())
def test_a_stall_names_where_each_rank_stands(drawn: tuple[Plan, str]) -> None:
    plan, policy = drawn
    messages = Messages(plan, policy)
    scripts = plan_scripts(plan, policy)
    for (semantics, capacity), stall in find_stalls(messages).items():
        if stall is None or not semantics.startswith("nccl"):
            continue
        replay = Replay(scripts, cast(Semantics, semantics), capacity)
        assert set(stall.blocked) == {host.rank for host in replay.hosts if not host.finished}
        for rank, number in stall.blocked.items():
            host = replay.hosts[rank]
            assert (rank in stall.held) == (host.in_call is not None)
            assert messages.action(number) in [one.payload for one in replay.blocked(rank)]
            done = [post.done for post in host.posts]
            base = messages.base[rank]
            assert stall.posted[rank] - base == len(done)
            assert list(stall.done[base : base + len(done)]) == done


@given(any_valid_plans() | plans(max_chunks=8))
def test_no_message_of_a_lowered_plan_is_swapped(plan: Plan) -> None:
    for policy in POLICIES:
        assert Messages(lower(plan, policy), policy).swap is None


def test_a_receive_of_another_message_is_told() -> None:
    plan = Plan.from_csv(
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
        "1RECV_F1,1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n"
    )
    messages = Messages(plan, "async")
    assert messages.swap is not None
    assert str(messages.action(messages.swap.send)) == "0SEND_F0"
    assert str(messages.action(messages.swap.receive)) == "1RECV_F1"


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_rank_alone_stalls_nowhere(policy: str) -> None:
    stalls = find_stalls(Messages(Plan.from_csv("0F0,0B0\n"), policy))
    assert set(stalls.values()) == {None}
    assert {("nccl-eager", 0), ("nccl-lazy", inf)} <= set(stalls)


@given(shuffled_plans())
@settings(max_examples=40)
def test_what_is_left_of_a_stall_hangs_as_the_whole_does(drawn: tuple[Plan, str]) -> None:
    plan, policy = drawn
    messages = Messages(plan, policy)
    for condition, stall in find_stalls(messages).items():
        semantics, capacity = condition
        if stall is None or not semantics.startswith("nccl"):
            continue
        whole = Replay(plan_scripts(plan, policy), cast(Semantics, semantics), capacity)
        left = replay_of(messages, stall)
        for rank in range(plan.world):
            told = [str(request.payload) for request in left.blocked(rank)]
            assert told == [str(request.payload) for request in whole.blocked(rank)]
        one, other = find_tangle(left), find_tangle(whole)
        assert one is not None
        assert other is not None
        assert (one.is_circle, len(one.links)) == (other.is_circle, len(other.links))


def test_a_plan_without_a_fault_finishes_under_every_semantics() -> None:
    verdicts = judge(build_plan("zbv", 4, 8))
    assert verdicts.policy == "batched"
    assert list(verdicts.semantics) == [
        "buffered",
        "gloo",
        "nccl-eager capacity=0",
        "nccl-eager capacity=inf",
        "nccl-lazy capacity=0",
        "nccl-lazy capacity=inf",
    ]
    assert set(verdicts.semantics.values()) == {"finishes"}
    assert verdicts.findings == ()


def test_neighbours_that_send_first_deadlock_and_need_buffering() -> None:
    (finding,) = judge(build_plan("1f1b", 4, 8), "blocking").findings
    assert (finding.code, finding.cause, finding.ranks) == ("deadlock", "needs-buffering", (2, 3))
    assert finding.message.startswith("ranks 2 and 3 wait for each other: rank 2's send of 2SEND_F")
    assert finding.details["semantics"]["buffered"] == "finishes"
    assert finding.operations[0].file.endswith("one_f_one_b.py")


def test_what_hangs_on_nccl_alone_is_a_hazard() -> None:
    (finding,) = judge(build_plan("1f1b", 4, 8), "isend").findings
    assert (finding.code, finding.severity, finding.cause) == (
        "nccl-hazard",
        "warning",
        "needs-capacity",
    )
    assert finding.details["semantics"]["gloo"] == "finishes"
    assert finding.details["policy"] == "isend"


def test_a_stall_of_many_operations_is_told() -> None:
    """Receives far ahead, hundreds of operations in the queues: each told once."""
    found = judge(build_plan("gpipe", 32, 64), "async").findings
    assert {finding.cause for finding in found} <= {"queue-order", "needs-capacity"}
    assert found
