"""Mutants of plans, and the model that says what a plan means."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.case import UsageError
from harness.injection import Injection
from harness.mutate.meaning import meaning_of
from harness.mutate.plans import mutated, plan_mutants
from pipeline.actions import Action
from pipeline.lower import get_policy, lower
from pipeline.plan import Plan, build_plan
from pipeline.problems import find_problems

BATCHED = get_policy("batched")
shapes = st.tuples(
    st.sampled_from(("naive", "gpipe", "1f1b")), st.integers(1, 4), st.integers(1, 5)
)


def rows(*texts: str) -> Plan:
    actions = [tuple(map(Action.parse, text.split())) for text in texts]
    return Plan("mine", len(texts), 2, tuple(actions))


@given(shapes, st.sampled_from(("batched", "async")))
def test_a_schedule_means_that_every_microbatch_counts_once(
    shape: tuple[str, int, int], name: str
) -> None:
    schedule, world, chunks = shape
    policy = get_policy(name)
    meaning = meaning_of(lower(build_plan(schedule, world, chunks), policy), policy)
    assert meaning.ends == ""
    assert len(meaning.gradients) == meaning.gradients.total() == world * chunks
    assert len(meaning.losses) == meaning.losses.total() == chunks


@given(shapes)
def test_every_schedule_means_the_same(shape: tuple[str, int, int]) -> None:
    _, world, chunks = shape
    meanings = [
        meaning_of(lower(build_plan(name, world, chunks), BATCHED), BATCHED)
        for name in ("naive", "gpipe", "1f1b")
    ]
    assert meanings[0].same(meanings[1])
    assert meanings[1].same(meanings[2])


def test_the_calls_of_the_course_wait_for_ever() -> None:
    policy = get_policy("blocking")
    assert "wait for ever" in meaning_of(lower(build_plan("1f1b", 2, 2), policy), policy).ends


@pytest.mark.parametrize(
    ("first", "second", "ends"),
    [
        ("0F0 0SEND_F0 0F1 0SEND_F1", "1RECV_F1 1F1 1RECV_F0 1F0", ""),  # swapped on the way
        ("0F0 0SEND_F0 0F1 0SEND_F1", "1RECV_F0 1F0", "ranks [0] wait for ever"),
        ("0F0 0SEND_F0", "1RECV_F0 1F0 1RECV_F1 1F1", "ranks [1] wait for ever"),
        ("0SEND_F0 0F0", "1RECV_F0 1F0", "0SEND_F0 has nothing to send"),
        ("0F0 0SEND_F0", "1F0", "1F0 without 1RECV_F0"),
        ("0F0 0F0", "1RECV_F0", "0F0 twice"),
        ("0F0 0B0", "1RECV_F0 1F0", "0B0 without 0RECV_B0"),
        ("0F5", "1RECV_F0", "0F5 is not for rank 0"),
    ],
)
def test_what_a_plan_comes_to(first: str, second: str, ends: str) -> None:
    assert meaning_of(rows(first, second), BATCHED).ends == ends


def test_a_receive_that_nobody_waits_for_is_left_over() -> None:
    plan = rows("0F0 0SEND_F0", "1RECV_F0 1F0 1RECV_F1")
    assert meaning_of(plan, get_policy("async")).ends == "a message is left over"


def test_a_swap_of_messages_means_something_else() -> None:
    backwards = " 1B0 1SEND_B0 1B1 1SEND_B1"
    right = rows(
        "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1",
        "1RECV_F0 1F0 1RECV_F1 1F1" + backwards,
    )
    swapped = rows(
        "0F0 0F1 0SEND_F1 0SEND_F0 0RECV_B0 0B0 0RECV_B1 0B1",
        "1RECV_F0 1F0 1RECV_F1 1F1" + backwards,
    )
    same, other = meaning_of(right, BATCHED), meaning_of(swapped, BATCHED)
    assert same.same(same)
    assert (other.ends, same.same(other)) == ("", False)


def test_a_split_backward_means_what_a_full_one_does() -> None:
    full = rows("0F0 0B0 0F1 0B1")
    split = rows("0F0 0I0 0F1 0I1 0W0 0W1")
    assert meaning_of(full, BATCHED).same(meaning_of(split, BATCHED))
    assert meaning_of(split, BATCHED).peaks == (2,)
    assert meaning_of(rows("0F0 0W0 0I0"), BATCHED).ends == "0W0 before its I"


@settings(max_examples=15)
@given(shapes)
def test_no_two_mutants_are_alike_and_each_is_found_by_its_name(
    shape: tuple[str, int, int],
) -> None:
    plan = build_plan(*shape)
    mutants = plan_mutants(plan, BATCHED)
    counts = Counter(mutant.plan.rows for mutant in mutants)
    assert set(counts.values()) <= {1}
    assert lower(plan, BATCHED).rows not in counts
    for mutant in mutants[::7]:
        name = Injection.parse(str(mutant.name))
        assert mutated(plan, BATCHED, name).rows == mutant.plan.rows


@settings(max_examples=15)
@given(shapes)
def test_what_validation_refuses_never_means_the_same(shape: tuple[str, int, int]) -> None:
    plan = build_plan(*shape)
    original = meaning_of(lower(plan, BATCHED), BATCHED)
    for mutant in plan_mutants(plan, BATCHED):
        if find_problems(mutant.plan):
            assert not meaning_of(mutant.plan, BATCHED).same(original), mutant


@pytest.mark.parametrize("name", ["swap@7.0", "swap@0.999", "nonsense@0.0", "drop-call@0.0"])
def test_a_name_that_the_plan_has_not_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"mutant={name}"):
        mutated(build_plan("1f1b", 2, 2), BATCHED, Injection.parse(name))


@pytest.mark.parametrize("text", ["swap", "swap@1", "Swap@1.2", "swap@1.2.3", "swap@-1.0", ""])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="OPERATOR@RANK"):
        Injection.parse(text)
