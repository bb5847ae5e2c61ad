"""Every mutant of every schedule, told by validation and by what it means: without running it.

The two know nothing of each other. What validation refuses must not mean the same, or a right plan
would be refused; and a plan of computations that it accepts must mean the same once it has been
given its sends and receives, or a wrong one would pass.
"""

from __future__ import annotations

from collections import Counter

import pytest

from harness.mutate.meaning import meaning_of
from harness.mutate.plans import PLAN_OPERATORS, plan_mutants
from pipeline.lower import get_policy, lower
from pipeline.plan import build_plan
from pipeline.problems import find_problems
from pipeline.schedules import RUNNABLE, SCHEDULES
from tests.mutate.shapes import on_two_ranks, smallest

SHAPES = smallest([2, 3, 4])
LARGE = ("dualpipe", 4), ("dualpipev", 3)  # thousands of mutants
LARGER = ("dualpipev", 4)  # nothing new, and a minute
MISORDERED = {"swap", "hoist", "put-off"}
"""What may let the messages between two ranks come in another order than they are taken."""


def told(name: str, world: int, chunks: int, policy_name: str = "batched") -> Counter[str]:
    """Count the verdicts; an assertion fails on the first mutant that the two disagree about."""
    policy, schedule = get_policy(policy_name), SCHEDULES[name]
    plan = build_plan(name, world, chunks)
    original = meaning_of(lower(plan, policy), policy)
    assert original.ends == ""
    counts: Counter[str] = Counter()
    for mutant in plan_mutants(plan, policy):
        problems, meaning = find_problems(mutant.plan), meaning_of(mutant.plan, policy)
        same, operator = meaning.same(original), mutant.name.operator
        if problems:
            assert not same, (mutant.text, problems[0])
            counts["refused"] += 1
        elif same:
            bound = [schedule.in_flight_bound(rank, world, chunks) for rank in range(world)]
            kept = all(map(int.__le__, meaning.peaks, bound))
            counts["equivalent" if kept else "over the bound"] += 1
        else:
            assert operator in MISORDERED, (mutant.text, meaning.ends)
            assert PLAN_OPERATORS[operator].to_lowered
            counts["misordered"] += 1
    return counts


@pytest.mark.parametrize(
    ("name", "world", "chunks"), [shape for shape in SHAPES if shape[:2] not in (*LARGE, LARGER)]
)
def test_validation_and_meaning_never_contradict_each_other(
    name: str, world: int, chunks: int
) -> None:
    counts = told(name, world, chunks)
    assert counts["refused"] > 50
    assert counts["equivalent"] > 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "world", "chunks"), [shape for shape in SHAPES if shape[:2] in LARGE]
)
def test_neither_do_they_where_there_are_thousands(name: str, world: int, chunks: int) -> None:
    assert told(name, world, chunks).total() > 1900


@pytest.mark.parametrize("name", RUNNABLE)
def test_some_mutants_of_every_schedule_only_misorder_messages(name: str) -> None:
    """Found when they run, and never by validation: who receives first is no fault of a plan."""
    assert told(*on_two_ranks(name))["misordered"] > 1


@pytest.mark.parametrize("name", ["1f1b", "zbv", "interleaved", "dualpipe"])
def test_nor_do_they_where_receives_are_posted_ahead(name: str) -> None:
    assert told(*on_two_ranks(name), "async")["equivalent"] > 2
