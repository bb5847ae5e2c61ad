"""The plan engine, which goes through numbers, against its rules said action by action."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.actions import Action, Kind
from pipeline.exchanges import with_exchanges
from pipeline.lower import POLICIES, lower
from pipeline.plan import Plan, build_plan, peak_in_flight
from pipeline.problems import find_problems
from pipeline.schedules import SCHEDULES
from pipeline.walk import walk
from tests.pipeline import straightforward
from tests.pipeline.strategies import accepted, any_valid_plans, plans

COSTS = dict(zip(Kind, (1.0, 2.0, 1.5, 0.7, 2.5, 0, 0, 0, 0), strict=True))


@st.composite
def damaged_plans(draw: st.DrawFn) -> Plan:
    """Draw a plan, lowered or not, with a few actions lost, doubled, moved or changed."""
    plan = draw(any_valid_plans() | plans(max_chunks=8))
    if draw(st.booleans()):
        plan = lower(plan, draw(st.sampled_from(sorted(POLICIES))))
    rows = [list(row) for row in plan.rows]
    for _ in range(draw(st.integers(0, 3))):
        row = rows[draw(st.integers(0, plan.world - 1))]
        if not row:
            continue
        action = row.pop(draw(st.integers(0, len(row) - 1)))
        what = draw(st.sampled_from(["lost", "doubled", "moved", "changed", "elsewhere"]))
        if what == "changed" and not action.overlapped:
            stage = action.stage + draw(st.integers(-2, 2))
            kind = draw(st.sampled_from([action.kind, *(k for k in Kind if k.is_compute)][:5]))
            action = replace(action, stage=stage, microbatch=action.microbatch + 1)
            action = replace(action, kind=kind if kind is not Kind.OVERLAP_F_B else Kind.B)
        if what == "doubled":
            row.insert(draw(st.integers(0, len(row))), action)
        if what == "elsewhere":
            row = rows[draw(st.integers(0, plan.world - 1))]
        if what != "lost":
            row.insert(draw(st.integers(0, len(row))), action)
    return replace(plan, rows=tuple(map(tuple, rows)))


@given(damaged_plans())
def test_problems_are_those_of_the_rules(plan: Plan) -> None:
    found, expected = find_problems(plan), straightforward.find_problems(plan)
    assert [(str(p), p.origin) for p in found] == [(str(p), p.origin) for p in expected]


@given(damaged_plans())
def test_actions_start_when_the_rules_say(plan: Plan) -> None:
    walked = walk(plan, COSTS)
    assert [list(starts) for starts in walked.starts] == straightforward.starts_of(plan, COSTS)
    _, stuck = straightforward.run_order(plan.rows, plan.needs)
    assert walked.stuck == {rank: missing for rank, (_, missing) in stuck.items()}
    for rank, (action, _) in stuck.items():
        assert plan.action(rank, len(walked.starts[rank])) == action


@given(damaged_plans())
def test_memory_is_that_of_the_rules(plan: Plan) -> None:
    assert peak_in_flight(plan) == straightforward.peak_in_flight(plan)


@given(damaged_plans())
def test_exchanges_are_those_of_the_rules(plan: Plan) -> None:
    if not plan.is_lowered:
        coded = with_exchanges(plan)
        expected = straightforward.with_exchanges(plan)
        found = tuple(tuple(coded.actions(rank)) for rank in range(plan.world))
        assert found == expected
        places = [[a.origin for a in row] for row in found]
        assert places == [[a.origin for a in row] for row in expected]


@given(plans(max_chunks=8))
def test_a_plan_is_the_same_as_numbers_and_as_actions(plan: Plan) -> None:
    again = Plan(plan.schedule, plan.world, plan.chunks, plan.rows, plan.placement, plan.directions)
    assert again == replace(plan, forward_only=False)
    assert again.coded == plan.coded
    for rank, row in enumerate(plan.rows):
        assert tuple(plan.coded.actions(rank)) == row
        assert [a.origin for a in plan.coded.actions(rank)] == [a.origin for a in row]


def test_a_number_that_is_too_large_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"yielded 3000000000F0 for rank 0: .* too large"):
        build_plan(lambda rank, world, chunks: [Action(3_000_000_000, Kind.F, 0)], 1, 1)


@pytest.mark.parametrize("name", SCHEDULES)
def test_each_action_is_looked_at_a_bounded_number_of_times(name: str) -> None:
    """Linear: once, and once more for each wait."""
    for world, chunks in accepted(name, 16, 40)[-3:]:
        plan = build_plan(name, world, chunks)
        assert plan.coded.size <= walk(plan).steps <= 2 * plan.coded.size


def test_an_action_far_out_of_range_costs_no_table_of_its_size() -> None:
    row = tuple(Action.parse(text) for text in ("0F0", "90000F90000", "90000B90000", "0B0"))
    plan = Plan("far", 1, 1, (row,), (0,))
    assert [str(problem.action) for problem in find_problems(plan)] == [
        "90000F90000",
        "90000B90000",
    ]
    assert list(walk(plan).starts[0]) == [0, 1, 2, 3]
    assert lower(plan).rows == plan.rows
