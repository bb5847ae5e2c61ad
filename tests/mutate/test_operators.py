"""What each way to damage a plan makes of a small one."""

from __future__ import annotations

import pytest

from harness.mutate.plans import PLAN_OPERATORS
from pipeline.actions import Action
from pipeline.lower import lower
from pipeline.plan import Plan, build_plan
from pipeline.schedules import RUNNABLE
from tests.mutate.shapes import on_two_ranks


def plan_of(*rows: str, placement: tuple[int, ...] = ()) -> Plan:
    actions = tuple(tuple(map(Action.parse, row.split())) for row in rows)
    return Plan("mine", len(rows), 2, actions, placement)


def made_of(operator: str, plan: Plan, rank: int = 0) -> list[str]:
    """Return the rank's row of every mutant, as text."""
    changed = PLAN_OPERATORS[operator].change(plan, rank)
    return [" ".join(map(str, rows[rank])) for _, rows in changed]


@pytest.mark.parametrize(
    ("operator", "row", "made"),
    [
        ("exchange-halves", "0F0 0I0 0F1 0W0", ["0F0 0W0 0F1 0I0"]),
        ("weight-first", "0F0 0I0 0F1 0W0", ["0F0 0W0 0I0 0F1"]),
        ("weight-last", "0I0 0W0 0F1", ["0I0 0F1 0W0"]),
        ("merge-halves", "0I0 0F1 0W0", ["0B0 0F1"]),
        ("whole-and-half", "0I0 0W0", ["0B0 0W0", "0I0 0B0"]),
        ("whole-and-half", "0B0 0F1", ["0B0 0I0 0F1", "0B0 0W0 0F1"]),
        ("split", "0F0 0B0 0F1", ["0F0 0I0 0W0 0F1"]),
        ("half-backward", "0F0 0B0", ["0F0 0I0", "0F0 0W0"]),
        ("half-pair", "(0F1;0B0)OVERLAP_F_B 0B1", ["0F1 0B1", "0B0 0B1"]),
        ("part-pair", "(0F1;0B0)OVERLAP_F_B", ["0F1 0B0", "0B0 0F1"]),
        (
            "exchange-pairs",
            "(0F1;0B0)OVERLAP_F_B 0F2 (0F3;0B1)OVERLAP_F_B",
            ["(0F1;0B1)OVERLAP_F_B 0F2 (0F3;0B0)OVERLAP_F_B"],
        ),
        ("join", "0B0 0F1", ["(0F1;0B0)OVERLAP_F_B"]),
        ("join", "0I0 0F1", []),
        (
            "shift-microbatch",
            "(0F1;0B0)OVERLAP_F_B",
            ["(0F0;0B0)OVERLAP_F_B", "(0F2;0B0)OVERLAP_F_B", "(0F1;0B1)OVERLAP_F_B"],
        ),
        ("shift-microbatch", "0W1", ["0W0", "0W2"]),
        ("drop", "0I0 0W0", ["0W0", "0I0"]),
        ("duplicate", "0W0", ["0W0 0W0"]),
        ("swap", "0I0 0W0", ["0W0 0I0"]),
        ("wrong-warmup", "0F0 (0F1;0B0)OVERLAP_F_B", []),
        ("wrong-warmup", "0F0 0F1 0I0 0F2", ["0F0 0F1 0F2 0I0", "0F0 0I0 0F1 0F2"]),
    ],
)
def test_a_row_is_changed_in_one_way(operator: str, row: str, made: list[str]) -> None:
    assert made_of(operator, plan_of(row)) == made


def test_an_action_is_done_for_the_rank_s_other_stage() -> None:
    plan = plan_of("0F0 3F0", "1F0 2F0", placement=(0, 1, 1, 0))
    assert made_of("other-stage", plan) == ["3F0 3F0", "0F0 0F0"]
    assert made_of("exchange-stages", plan) == ["3F0 0F0"]
    assert made_of("other-stage", plan_of("0F0", "1F0")) == []


def test_another_rank_does_what_this_one_should() -> None:
    plan = plan_of("0F0 0B0", "1F0 1B0")
    first, second = (rows for _, rows in PLAN_OPERATORS["wrong-rank"].change(plan, 0))
    assert [" ".join(map(str, row)) for row in first] == ["0B0", "0F0 1F0 1B0"]
    assert [" ".join(map(str, row)) for row in second] == ["0F0", "1F0 0B0 1B0"]
    ((_, rows),) = PLAN_OPERATORS["exchange-ranks"].change(plan, 0)
    assert [" ".join(map(str, row)) for row in rows] == ["1F0 1B0", "0F0 0B0"]
    for operator in ("wrong-rank", "exchange-ranks"):
        assert made_of(operator, plan_of("0F0 0B0")) == []


def test_microbatches_of_two_directions_change_places() -> None:
    plan = build_plan("dualpipe", 2, 4)
    row = " ".join(map(str, plan.rows[0]))
    assert row.startswith("0F0 3F2 0F1")
    crossed = made_of("cross-direction", plan)
    assert crossed[0] == row.replace("0F0", "0F2", 1)
    assert len(crossed) == sum(len(action.parts) for action in plan.rows[0])
    exchanged = made_of("exchange-directions", plan)
    assert len(exchanged) == 2
    assert exchanged[0].startswith("0F2 3F0 0F1")
    for operator in ("cross-direction", "exchange-directions"):
        assert made_of(operator, build_plan("dualpipev", 2, 4)) == []


@pytest.mark.parametrize("operator", PLAN_OPERATORS)
def test_every_operator_is_told_in_a_line_and_damages_some_schedule(operator: str) -> None:
    what = PLAN_OPERATORS[operator]
    assert 0 < len(what.doc) < 80
    plans = [build_plan(*on_two_ranks(name)) for name in RUNNABLE]
    assert any(made_of(operator, lower(p) if what.to_lowered else p) for p in plans)
