"""When the actions run, and what that costs: against the published tables."""

from __future__ import annotations

from itertools import pairwise

import pytest

from harness.plot.bubble import Wait
from harness.plot.causes import Causes
from harness.plot.figures import caution, differences, measure
from harness.plot.path import critical_path
from harness.plot.placed import Placed, place
from harness.timeline import Bubble, Costs
from pipeline.actions import Action
from pipeline.lower import lower
from pipeline.plan import Plan, build_plan
from pipeline.schedules import SCHEDULES

ONE_EACH = Costs(backward=1)
SHAPE = (4, 8)


def placed(name: str, world: int, chunks: int, costs: Costs = ONE_EACH) -> Placed:
    return place(build_plan(name, world, chunks), costs)


@pytest.mark.parametrize(
    ("world", "chunks", "makespan", "idle", "fraction", "peaks"),
    [
        (2, 4, 10, 2, 0.2, (2, 1)),
        (4, 1, 8, 6, 0.75, (1, 1, 1, 1)),
        (4, 2, 10, 6, 0.6, (2, 2, 2, 1)),
        (4, 4, 14, 6, 0.4286, (4, 3, 2, 1)),
        (4, 8, 22, 6, 0.2727, (4, 3, 2, 1)),
        (8, 16, 46, 14, 0.3043, (8, 7, 6, 5, 4, 3, 2, 1)),
        (8, 32, 78, 14, 0.1795, (8, 7, 6, 5, 4, 3, 2, 1)),
    ],
)
def test_1f1b_and_gpipe_cost_what_their_papers_say(
    world: int, chunks: int, makespan: int, idle: int, fraction: float, peaks: tuple[int, ...]
) -> None:
    for name, kept in (("1f1b", peaks), ("gpipe", (chunks,) * world)):
        plot = placed(name, world, chunks)
        assert plot.makespan == makespan
        assert plot.idle == (idle,) * world
        assert plot.bubble.of_total is not None
        assert round(plot.bubble.of_total, 4) == fraction
        assert plot.bubble.of_ideal == pytest.approx(idle / (makespan - idle))
        assert plot.peaks == kept


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("costs", [Costs(), ONE_EACH, Costs(0.1, 0.3, 0.1, 0.7)], ids=str)
def test_the_sources_of_the_bubble_add_up_to_it(name: str, costs: Costs) -> None:
    plot = placed(name, *SHAPE, costs)
    for rank, source in enumerate(measure(plot).sources):
        parts = (source.start_up, source.activations, source.gradients, source.end)
        assert min(parts) >= 0
        assert sum(parts) == pytest.approx(plot.idle[rank], abs=1e-6)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("costs", [Costs(), ONE_EACH, Costs(0.1, 0.3, 0.1, 0.7)], ids=str)
def test_the_critical_path_takes_the_makespan_without_a_gap(name: str, costs: Costs) -> None:
    plot = placed(name, *SHAPE, costs)
    spans = [plot.spans[rank][at] for rank, at in critical_path(plot, Causes(plot))]
    assert spans[0][0] == 0
    assert spans[-1][1] == plot.makespan
    assert all(a[1] == pytest.approx(b[0]) for a, b in pairwise(spans))


def test_a_wait_names_what_is_waited_for() -> None:
    sources = measure(placed("1f1b", *SHAPE)).sources
    assert [s.start_up for s in sources] == [0, 1, 2, 3]
    assert [s.end for s in sources] == [0, 1, 2, 3]
    assert [s.activations for s in sources] == [0, 0, 0, 0]
    first = Action.parse("0B0"), Action.parse("1B0")
    assert sources[0].longest == Wait(3, *first)
    assert sources[3].longest is None


def test_an_overlapped_pair_waits_for_the_part_that_is_late() -> None:
    sources = measure(placed("dualpipe", 4, 8, Costs())).sources
    assert sources[0].activations == 2
    assert sources[1].gradients == 1


def test_sends_and_receives_take_no_time() -> None:
    plan = build_plan("1f1b", *SHAPE)
    bare, lowered = place(plan, Costs()), place(lower(plan), Costs())
    assert (lowered.makespan, lowered.idle, lowered.peaks) == (bare.makespan, bare.idle, bare.peaks)
    assert measure(lowered).path.names == measure(bare).path.names
    assert [s.gradients for s in measure(lowered).sources] == [9, 6, 3, 0]


def test_a_send_that_comes_late_holds_its_receiver_up() -> None:
    rows = "0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n" + (
        "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1\n"
    )
    plot = place(Plan.from_csv(rows), Costs())
    assert not plot.problems
    assert list(plot.spans[1][1]) == [2, 3]


def test_work_that_costs_nothing_makes_no_bubble() -> None:
    plot = placed("gpipe", 2, 2, Costs(0, 0, 0, 0))
    assert plot.makespan == 0
    assert plot.bubble == Bubble(None, None)
    assert measure(plot).path.names[0] == "0F0"


def test_an_invalid_plan_runs_until_nothing_can() -> None:
    plot = place(Plan.from_csv("0F0,0B1,0F1,0B0\n1F0,1B0,1F1,1B1\n"), Costs())
    assert [str(action) for action in plot.stuck.values()] == ["0B1", "1F1"]
    assert [len(row) for row in plot.spans] == [1, 2]
    assert [problem.reason for problem in plot.problems] == ["comes before 0F1, which it needs"]
    assert plot.peaks == (1, 1)


@pytest.mark.parametrize("rows", ["0F0,0B0\n1F0,9F0", "0F0,1F0\n1F0,1B0", "0F0\n0F0", "0B0\n1B0"])
def test_whatever_is_wrong_is_measured(rows: str) -> None:
    plot = place(Plan.from_csv(rows), Costs(0, 0))
    assert plot.problems
    measure(plot)


def test_two_plans_differ_in_their_figures() -> None:
    plots = [(p, measure(p)) for p in (placed("gpipe", *SHAPE), placed("1f1b", *SHAPE))]
    found = {each.name: each.change for each in differences(*plots)}
    assert found["makespan"] == 0
    assert found["peak in flight"] == -4
    assert caution(plots) == ""


def test_stages_of_different_sizes_are_pointed_out() -> None:
    plots = [(p, measure(p)) for p in (placed("zbv", 2, 2), placed("1f1b", 2, 2))]
    assert "zbv has 2 on a rank" in caution(plots)


def test_a_long_path_is_printed_shortened() -> None:
    path = measure(placed("naive", 2, 5)).path
    assert len(path) == 20
    assert str(path) == "0F0 1F0 1B0 0B0 0F1 1F1 … 0F4 1F4 1B4 0B4"
    assert str(measure(placed("naive", 2, 2)).path) == "0F0 1F0 1B0 0B0 0F1 1F1 1B1 0B1"
