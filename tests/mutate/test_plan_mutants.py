"""Mutants of plans, and the model that says what a plan means."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.case import UsageError
from harness.injection import Injection
from harness.mutate.meaning import Meaning, meaning_of
from harness.mutate.plans import mutated, plan_mutants
from pipeline.actions import Action
from pipeline.lower import get_policy, lower
from pipeline.plan import Plan, build_plan
from pipeline.schedules import RUNNABLE
from tests.mutate.shapes import shapes

BATCHED = get_policy("batched")


def rows(*texts: str) -> Plan:
    actions = [tuple(map(Action.parse, text.split())) for text in texts]
    return Plan("mine", len(texts), 2, tuple(actions))


@given(shapes(), st.sampled_from(("batched", "async")))
def test_a_schedule_means_that_every_microbatch_counts_once(
    shape: tuple[str, int, int], name: str
) -> None:
    plan, policy = build_plan(*shape), get_policy(name)
    meaning = meaning_of(lower(plan, policy), policy)
    slices = plan.stages // plan.directions
    assert meaning.ends == ""
    assert len(meaning.gradients) == meaning.gradients.total() == slices * plan.chunks
    assert len(meaning.losses) == meaning.losses.total() == plan.chunks


@pytest.mark.parametrize("world", [2, 4])
def test_every_schedule_that_cuts_the_model_alike_means_the_same(world: int) -> None:
    meanings: dict[int, list[Meaning]] = {}
    for name in RUNNABLE:
        plan = build_plan(name, world, 2 * world)
        meaning = meaning_of(lower(plan, BATCHED), BATCHED)
        meanings.setdefault(plan.stages // plan.directions, []).append(meaning)
    assert {slices: len(alike) for slices, alike in meanings.items()} == {world: 6, 2 * world: 5}
    for alike in meanings.values():
        assert all(one.same(other) for one, other in pairwise(alike))


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


def test_without_its_weight_half_a_backward_adds_nothing() -> None:
    meaning = meaning_of(rows("0F0 0I0 0F1 0I1 0W1"), BATCHED)
    assert (meaning.ends, meaning.losses.total(), meaning.gradients.total()) == ("", 2, 1)
    assert not meaning.same(meaning_of(rows("0F0 0B0 0F1 0B1"), BATCHED))


@pytest.mark.parametrize(
    ("row", "ends"),
    [
        ("0F0 0B0 0W0", "0W0 before its I"),
        ("0F0 0I0 0W0 0W0", "0W0 before its I"),
        ("0F0 0I0 0I0", "0I0 before its forward"),
        ("0F0 0W0", "0W0 before its I"),
        ("(0F0;0B0)OVERLAP_F_B", "0B0 before its forward"),
        ("0F0 (0F0;0B0)OVERLAP_F_B", "0F0 twice"),
    ],
)
def test_what_a_backward_in_parts_comes_to(row: str, ends: str) -> None:
    assert meaning_of(rows(row), BATCHED).ends == ends


def test_a_pair_means_what_its_parts_do_and_keeps_both() -> None:
    apart = meaning_of(rows("0F0 0F1 0B0 0B1"), BATCHED)
    paired = meaning_of(rows("0F0 (0F1;0B0)OVERLAP_F_B 0B1"), BATCHED)
    assert apart.same(paired)
    assert apart.peaks == paired.peaks == (2,)


def test_between_two_stages_of_a_rank_there_is_no_message() -> None:
    text = "0F0 1F0 1B0 0I0 0F1 0W0 1F1 1I1 0B1 1W1"
    plan = Plan("mine", 1, 2, (tuple(map(Action.parse, text.split())),), (0, 0))
    meaning = meaning_of(plan, BATCHED)
    assert (meaning.ends, meaning.gradients.total(), meaning.peaks) == ("", 4, (2,))
    swapped = Plan("mine", 1, 2, (tuple(map(Action.parse, ("1F0", "0F0"))),), (0, 0))
    assert meaning_of(swapped, BATCHED).ends == "1F0 before what it needs"


def test_two_directions_add_up_the_gradients_of_each_slice() -> None:
    one_way = lower(build_plan("1f1b", 2, 4), BATCHED)
    both = lower(build_plan("dualpipe", 2, 4), BATCHED)
    assert meaning_of(one_way, BATCHED).same(meaning_of(both, BATCHED))
    without = replace(both, rows=(both.rows[0], both.rows[1][:-1]))
    assert str(both.rows[1][-1])[1] in "BW"
    assert not meaning_of(without, BATCHED).same(meaning_of(both, BATCHED))


@settings(max_examples=15)
@given(shapes(most=2))
def test_no_two_mutants_are_alike_and_each_is_found_by_its_name(
    shape: tuple[str, int, int],
) -> None:
    plan = build_plan(*shape)
    mutants = plan_mutants(plan, BATCHED)
    counts = Counter(mutant.plan.rows for mutant in mutants)
    assert set(counts.values()) <= {1}
    assert lower(plan, BATCHED).rows not in counts
    for mutant in mutants[::29]:
        name = Injection.parse(str(mutant.name))
        assert mutated(plan, BATCHED, name).rows == mutant.plan.rows


@pytest.mark.parametrize("name", ["swap@7.0", "swap@0.999", "nonsense@0.0", "drop-call@0.0"])
def test_a_name_that_the_plan_has_not_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"mutant={name}"):
        mutated(build_plan("1f1b", 2, 2), BATCHED, Injection.parse(name))


@pytest.mark.parametrize("text", ["swap", "swap@1", "Swap@1.2", "swap@1.2.3", "swap@-1.0", ""])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="OPERATOR@RANK"):
        Injection.parse(text)
