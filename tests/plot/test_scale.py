"""Large plans: nothing is left out without being said, and no action is made that is not shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.plot import limits
from harness.plot.figures import measure
from harness.plot.forms import Plot, draw
from harness.plot.placed import place
from harness.timeline import Costs
from pipeline.lower import lower
from pipeline.plan import build_plan
from pipeline.schedules import SCHEDULES
from tests.plot.conftest import Plot as Command


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_analysis_is_of_the_whole_plan(name: str) -> None:
    """As numbers: the actions themselves are never made all at once."""
    plan = build_plan(name, 16, 96)
    placed = place(plan, Costs())
    figures = measure(placed)
    assert not placed.problems
    assert sum(map(len, placed.spans)) == plan.coded.size
    assert figures.verdicts is not None
    assert len(figures.verdicts.semantics) == 6
    assert set(figures.verdicts.semantics.values()) == {"finishes"}
    draw([Plot(placed, figures)], "json")
    draw([Plot(placed, figures)], "csv")
    assert "rows" not in vars(plan)


def test_the_documentation_names_the_limits() -> None:
    told = (Path(__file__).parents[2] / "docs" / "plot.md").read_text()
    cut = (limits.TEXT_CELLS, limits.GRID_CELLS, limits.PATH_ACTIONS, limits.DRAWN_ACTIONS)
    assert all(f"over {limit:,} " in told for limit in cut)
    assert f"{limits.TEXT_COLUMNS} columns, and the first {limits.FIRST_RANKS} and" in told
    shape = f"{limits.MAX_WORLD} ranks, {limits.MAX_CHUNKS} microbatches, and {limits.MAX_WORK} of"
    assert f"Allowed are {shape}" in told


def test_json_says_what_it_leaves_out(plot: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = plot("1f1b", "-n", 4, "-c", 8, "--format", "json").json
    monkeypatch.setattr("harness.plot.document.GRID_CELLS", 100)
    monkeypatch.setattr("harness.plot.document.PATH_ACTIONS", 10)
    done = plot("1f1b", "-n", 4, "-c", 8, "--format", "json")
    assert done.status == 0
    assert done.json["omitted"] == {
        "grid": "4 ranks x 33 columns are over 100 cells: --format csv has the actions in order",
        "critical_path": "22 actions are over 10",
    }
    left_out = {"grid": None, "critical_path": None, "omitted": done.json["omitted"]}
    assert done.json == whole | left_out


def test_text_draws_some_ranks_and_says_so(plot: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.plot.text.TEXT_CELLS", 1000)
    lines = plot("1f1b", "-n", 20, "-c", 40).stdout.splitlines()
    grid = [line.split()[1] for line in lines[3:19]]
    assert grid == [*map(str, range(12)), *map(str, range(16, 20))]
    assert lines[19].startswith("… too large to be read: 4 of 20 ranks are left out here and below")
    assert lines[20].startswith("… cut to this width: shown is time 0 to 60, 117 of 177 columns")
    assert lines[20].endswith("--format csv has all")
    assert sum(line.startswith("rank ") for line in lines) == 32
    assert next(line for line in lines if line.startswith("all ")).split()[1] == str(20 * 57)


def test_text_draws_a_rank_with_a_problem_wherever_it_is(
    folder: Path, plot: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = build_plan("1f1b", 30, 8).to_csv().splitlines()
    rows[17] = rows[17].replace("17F3,", "")
    (folder / "wide.csv").write_text("\n".join(rows))
    monkeypatch.setattr("harness.plot.text.TEXT_CELLS", 1000)
    done = plot("wide.csv")
    assert done.status == 1
    assert [line for line in done.stdout.splitlines() if line.startswith("rank 17")]


def test_text_draws_every_rank_with_a_problem_where_they_are_some(
    folder: Path, plot: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two problems on each: it is the ranks that count."""
    rows = build_plan("1f1b", 40, 8).to_csv().splitlines()
    bad = range(14, 34, 3)
    for rank in bad:
        rows[rank] = rows[rank].replace(f"{rank}F3,", "").replace(f"{rank}F4,", "")
    (folder / "wide.csv").write_text("\n".join(rows))
    monkeypatch.setattr("harness.plot.text.TEXT_CELLS", 1000)
    drawn = [line.split()[1] for line in plot("wide.csv").stdout.splitlines() if "rank " in line]
    assert {str(rank) for rank in bad} <= set(drawn)


@pytest.mark.parametrize("form", ["svg", "html", "chrome"])
def test_a_drawing_of_too_many_actions_is_refused(
    form: str, plot: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.plot.forms.DRAWN_ACTIONS", 60)
    done = plot("1f1b", "-n", 4, "-c", 8, "--format", form)
    assert (done.status, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"--format {form}: 64 actions are too many to draw, 60 at most" in done.stderr


def test_a_message_that_meets_another_receive_is_found(folder: Path, plot: Command) -> None:
    (folder / "swapped.csv").write_text(
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
        "1RECV_F1,1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n"
    )
    done = plot("swapped.csv", "--format", "json")
    assert done.status == 1
    finding = done.json["findings"][0]
    assert (finding["code"], finding["ranks"]) == ("message-swap", [0, 1])
    assert "rank 1's 1RECV_F1 gets what rank 0 sends by 0SEND_F0" in finding["message"]
    assert finding["operations"][0]["file"] == "swapped.csv"
    assert "error[message-swap]: rank 1's 1RECV_F1 gets" in plot("swapped.csv").stdout


def test_a_hang_under_nccl_alone_is_a_warning(folder: Path, plot: Command) -> None:
    """How the messages of a file are posted is not in it, so that it need not hang."""
    (folder / "ahead.csv").write_text(lower(build_plan("1f1b", 4, 8), "async").to_csv())
    done = plot("ahead.csv", "--format", "json")
    assert done.status == 0
    assert done.json["policy"] == "async"
    assert done.json["semantics"]["gloo"] == "finishes"
    assert done.json["semantics"]["nccl-eager capacity=0"] == "hangs"
    assert {finding["code"] for finding in done.json["findings"]} == {"nccl-hazard"}
    text = plot("ahead.csv").stdout
    assert "deadlock:      under nccl-eager capacity=0" in text
    assert "warning[nccl-hazard]: " in text


def test_of_an_invalid_plan_no_deadlock_is_looked_for(folder: Path, plot: Command) -> None:
    document = plot("early.csv", "--format", "json").json
    assert (document["policy"], document["semantics"]) == (None, None)
    assert "deadlock:      not looked for, the plan is invalid\n" in plot("early.csv").stdout
