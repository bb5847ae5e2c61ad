"""Which comm policies are safe on NCCL, at plan level."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.hazards.check import cause_of, find_hangs
from harness.hazards.scripts import Await, Post
from harness.hazards.verdicts import judge
from pipeline.lower import lower
from pipeline.plan import Plan, build_plan
from pipeline.schedules import SCHEDULES
from tests.hazards.scripts_of_plans import plan_scripts
from tests.pipeline.strategies import FULL_ONE_STAGE, accepted, any_valid_plans

NAMES = list(SCHEDULES)


def hangs(plan: Plan, policy: str) -> set[str]:
    return {cause_of(hang) for hang in find_hangs(plan_scripts(lower(plan, policy), policy))}


@pytest.mark.parametrize("name", NAMES)
def test_the_default_policy_is_safe_at_every_shape_up_to_8(name: str) -> None:
    for world, chunks in accepted(name, 8, 8):
        assert hangs(build_plan(name, world, chunks), "batched") == set()


@pytest.mark.parametrize("name", NAMES)
def test_the_default_policy_is_safe_at_every_shape(name: str) -> None:
    """By the analysis of plans, which :mod:`tests.hazards.test_stalls` compares with the above."""
    for world, chunks in accepted(name, 8, 32):
        verdicts = judge(build_plan(name, world, chunks), "batched")
        assert set(verdicts.semantics.values()) == {"finishes"}
        assert verdicts.findings == ()


@given(any_valid_plans())
@settings(max_examples=150)
def test_the_default_policy_is_safe_for_any_valid_plan(plan: Plan) -> None:
    """Under a group's own communicator; where it is made late, all ranks have to communicate."""
    scripts = plan_scripts(lower(plan), "batched")
    found = find_hangs(scripts)
    if not all(any(isinstance(step, Post) for step in script) for script in scripts):
        found = [hang for hang in found if hang.semantics == "nccl-eager"]
    assert found == []


@given(world=st.integers(2, 8), chunks=st.integers(2, 32))
def test_1f1b_with_single_sends_needs_capacity(world: int, chunks: int) -> None:
    assert hangs(build_plan("1f1b", world, chunks), "isend") == {"needs-capacity"}


@given(name=st.sampled_from(FULL_ONE_STAGE), world=st.integers(2, 8), chunks=st.integers(3, 32))
def test_receives_posted_ahead_hold_up_sends(name: str, world: int, chunks: int) -> None:
    found = find_hangs(plan_scripts(lower(build_plan(name, world, chunks), "async"), "async"))
    assert cause_of(found[0]) == "queue-order"


def test_a_row_is_posted_as_the_executor_does_it() -> None:
    lowered = lower(build_plan("1f1b", 2, 3), "batched")
    told = [
        f"wait {step.post}" if isinstance(step, Await) else f"{step.what}@{step.batch}"
        for step in plan_scripts(lowered, "batched")[1]
    ]
    assert " ".join(told[:6]) == "1RECV_F0@0 wait 0 1RECV_F1@1 wait 1 1SEND_B0@2 wait 2"
    assert " ".join(told[6:10]) == "1RECV_F2@3 1SEND_B1@3 wait 3 wait 4"
    single = plan_scripts(lower(build_plan("gpipe", 2, 1), "async"), "async")[0]
    assert [step.post if isinstance(step, Await) else str(step.what) for step in single] == [
        "0RECV_B0",
        "0SEND_F0",
        0,
        1,
    ]
