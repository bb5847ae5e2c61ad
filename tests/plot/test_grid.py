"""The grid: golden for small plans."""

from __future__ import annotations

import pytest

from harness.plot.figures import measure
from harness.plot.forms import Plot, draw
from harness.plot.grid import FINEST, MOST, Grid
from harness.plot.placed import Placed, place
from harness.timeline import Costs
from pipeline.plan import Plan, build_plan


def drawn(plan: Plan, costs: str = "F=1,B=1", width: int | None = None, color: bool = False) -> str:
    placed = place(plan, Costs.parse(costs))
    return draw([Plot(placed, measure(placed))], "text", width=width, color=color)


def grid_of(text: str) -> str:
    return text.split("\n\n")[1]


def placed(costs: str, name: str = "1f1b") -> Placed:
    return place(build_plan(name, 2, 2), Costs.parse(costs))


def test_1f1b() -> None:
    assert grid_of(drawn(build_plan("1f1b", 2, 3))) == (
        "time   0   1   2   3   4   5   6   7\n"
        "rank 0 0F0 0F1 ·   0B0 0F2 0B1 ·   0B2\n"
        "rank 1 ·   1F0 1B0 1F1 1B1 1F2 1B2 ·"
    )


def test_what_takes_longer_is_drawn_to_its_end() -> None:
    assert grid_of(drawn(build_plan("gpipe", 2, 2), "F=1,B=2")) == (
        "time   0   1   2   3   4   5   6   7   8\n"
        "rank 0 0F0 0F1 ·   ·   ·   0B0──── 0B1────\n"
        "rank 1 ·   1F0 1F1 1B0──── 1B1──── ·   ·"
    )


def test_an_overlapped_pair_prints_as_its_parts() -> None:
    assert "0F3;7B5────" in drawn(build_plan("dualpipe", 4, 8), "F=1,B=2")


def test_columns_are_as_long_as_all_actions_have_in_common() -> None:
    assert grid_of(drawn(build_plan("naive", 2, 1), "F=0.5,B=1.5")) == (
        "time   0   0.5 1   1.5 2   2.5 3   3.5\n"
        "rank 0 0F0 ·   ·   ·   ·   0B0────────\n"
        "rank 1 ·   1F0 1B0──────── ·   ·   ·\n"
        "a column is 0.5 units of time"
    )


def test_costs_without_a_common_measure_still_give_each_action_a_column() -> None:
    plot = placed("F=1,B=1.37")
    grid = Grid.of([plot])
    assert grid.unit == 1
    rows = [grid.cells(plot, rank) for rank in range(2)]
    seen = [dict.fromkeys(cell for cell in row if cell) for row in rows]
    assert [list(row) for row in seen] == [list(map(str, row)) for row in plot.plan.rows]


def test_a_finer_unit_is_taken_while_it_is_not_tiny() -> None:
    assert Grid.of([placed(f"F=1,B={1 + 1 / FINEST:g}")]).unit == 1
    assert Grid.of([placed("F=1,B=1.25")]).unit == 0.25


def test_columns_have_a_limit() -> None:
    plot = placed("F=1,B=1000000")
    assert Grid.of([plot]).columns(plot) <= MOST


def test_work_that_costs_nothing_has_no_column() -> None:
    grid = Grid.of([placed("F=0,B=0")])
    assert grid.cells(placed("F=0,B=0"), 0) == []
    assert "makespan:      0\n" in drawn(build_plan("gpipe", 2, 2), "F=0,B=0")


def test_a_wide_plan_is_cut_to_the_terminal_and_says_so() -> None:
    text = drawn(build_plan("1f1b", 4, 8), "F=1,B=2", width=60)
    assert all(len(line) <= 60 for line in grid_of(text).splitlines()[:5])
    assert "shown is time 0 to 13, 20 of 33 columns are not" in text


def test_a_narrow_terminal_shows_a_column() -> None:
    assert "0F0" in drawn(build_plan("1f1b", 4, 8), width=3)


def test_an_invalid_plan_is_cut_around_its_problem() -> None:
    rows = build_plan("naive", 2, 20).to_csv().replace("0F19,0B19", "0B19,0F19")
    text = drawn(Plan.from_csv(rows), width=60)
    assert "!0B19" in text
    assert "0F0 " not in text.split("makespan")[0]


def test_what_is_wrong_and_what_never_starts_is_marked() -> None:
    assert grid_of(drawn(Plan.from_csv("0F0,0B1,0F1,0B0\n1F0,1B0,1F1,1B1\n"))) == (
        "time   0    1    2    3\n"
        "rank 0 0F0─ !0B1 ·    ·\n"
        "rank 1 ·    1F0─ 1B0─ ~1F1\n"
        "! has a problem, ~ never starts: what it waits for never comes"
    )


@pytest.mark.parametrize("name", ["1f1b", "dualpipe"])
def test_colour_changes_no_letter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.text import Text

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    plan = build_plan(name, 4, 8)
    shown = drawn(plan, color=True)
    assert "\x1b[" in shown
    letters = "\n".join(line.rstrip() for line in Text.from_ansi(shown).plain.splitlines())
    assert letters.rstrip() == drawn(plan).rstrip()
