"""``harness plot`` as a user calls it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli import main
from pipeline.schedules import SCHEDULES
from tests.plot.conftest import Plot


def test_below_the_grid_stand_the_figures(plot: Plot) -> None:
    done = plot("1f1b", "-n", 4, "-c", 8, "--cost", "F=1,B=1")
    assert (done.status, done.stderr) == (0, "")
    assert "makespan:      22\n" in done.stdout
    assert "0.2727 of total time (world × makespan), 0.3750 of ideal time" in done.stdout
    assert "critical path: 22 actions: 0F0 1F0 2F0 3F0 3B0 3F1 … 3B7 2B7 1B7 0B7\n" in done.stdout
    assert (
        "rank 0     6         0       0       6    0               4  3, 0B0 for 1B0" in done.stdout
    )


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_can_be_plotted(name: str, plot: Plot) -> None:
    done = plot(name, "-n", 4, "-c", 8)
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{name} world=4 chunks=8, costs F=1,B=2,I=1,W=1\n")


def test_two_plans_stand_above_each_other_with_their_differences(plot: Plot) -> None:
    done = plot("gpipe", "1f1b", "-w", 2, "-c", 3)
    assert done.status == 0
    assert done.stdout.count("\ntime   0   1   2") == 2
    assert "peak in flight               3       2  -1" in done.stdout


def test_a_csv_brings_its_own_shape_and_gives_it_to_the_other(folder: Path, plot: Plot) -> None:
    assert plot("good.csv").stdout.startswith("good world=2 chunks=2")
    done = plot("good.csv", "gpipe")
    assert done.status == 0
    assert "gpipe world=2 chunks=2" in done.stdout


def test_a_plan_of_the_users_own_is_listed_on_a_rank(folder: Path, plot: Plot) -> None:
    before = sys.modules.get("mine")  # another test's file may have that name too
    mine = plot("mine.py:gpipe", "-n", 2, "-c", 3, "--format", "json").json
    assert mine == plot("gpipe", "-n", 2, "-c", 3, "--format", "json").json
    assert sys.modules.get("mine") is before


def test_an_invalid_plan_has_the_finding_of_check(folder: Path, plot: Plot) -> None:
    done = plot("mine.py:stuck", "-n", 2, "-c", 3, "--format", "json")
    assert done.status == 1
    (finding,) = done.json["findings"]
    (operation,) = finding["operations"]
    assert (finding["code"], finding["severity"], finding["ranks"]) == (
        "plan-invalid",
        "error",
        [0],
    )
    assert "0B2 comes before 0F2, which it needs" in finding["message"]
    assert finding["case"].startswith("mine.py:stuck world=2 chunks=3 ")
    assert (operation["action"], operation["line"], operation["function"]) == ("0B2", 11, "stuck")
    assert done.json["grid"] == [["0F0", "", "", ""], ["", "1F0", "1B0", "1B0"]]


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("twice.csv", "rank 0: 0F0 appears twice   twice.csv:1"),
        ("early.csv", "rank 0: 0B0 comes before 0F0, which it needs   early.csv:1"),
        ("far.csv", "rank 1: 2F0 is out of range: stages are 0..1   far.csv:2"),
        ("many.csv", "rank 0: 0F99999 is out of range: microbatches are 0..0   many.csv:1"),
    ],
)
def test_an_invalid_plan_is_drawn_with_its_problems(
    file: str, problem: str, folder: Path, plot: Plot
) -> None:
    done = plot(file)
    assert (done.status, done.stderr) == (1, "")
    assert "error[plan-invalid]: " in done.stdout
    assert problem in done.stdout
    for form in ("svg", "csv", "json", "chrome", "html"):
        assert plot(file, "--format", form).status == 1
    assert plot("good.csv", file).status == 1


@pytest.mark.parametrize(
    ("function", "told", "traceback"),
    [
        ("refusing", "chunks must be even", False),
        ("junk", "not an action: 'forward'", False),
        ("raising", "KeyError: 'F'", True),
    ],
)
def test_a_plan_that_cannot_be_listed_is_one_line_and_their_traceback(
    function: str, told: str, traceback: bool, folder: Path, plot: Plot
) -> None:
    done = plot(f"mine.py:{function}", "-n", 2, "-c", 3)
    first, *rest = done.stderr.splitlines()
    assert (done.status, done.stdout) == (2, "")
    assert first.startswith(f"error: the plan of mine.py:{function} cannot be listed: {told}")
    assert bool(rest) == traceback
    assert not [line for line in rest if "pipeline/" in line]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "missing argument"),
        ("1f1b", "1f1b needs -n RANKS"),
        ("1f1b -n 4", "1f1b needs -c MICROBATCHES"),
        ("1f1b -n 0 -c 1", "--world-size 0 is out of range: allowed are 1 to 4096"),
        ("1f1b -n 2,3 -c 1", "--world-size 2,3: a plot is of one, give one number"),
        ("1f1b -n 2 -c x", "--chunks 'x' is no number"),
        ("1f1c -n 2 -c 2", "did you mean 1f1b?"),
        ("1f1b -n 2 -c 2 --cost F", "--cost: costs 'F'"),
        ("1f1b -n 2 -c 2 --cost F=-1", "a finite number from 0 up"),
        ("1f1b -n 2 -c 2 --cost F=1,latency=1", "in a plot messages take no time"),
        ("1f1b -n 2 -c 2 --format pdf", "'pdf' is not one of"),
        ("1f1b gpipe -n 2 -c 2 --format csv", "csv holds one plan"),
        ("1f1b gpipe naive -n 2 -c 2", "a plot is of one plan or two: got 3"),
        ("1f1b -n 2 -c 2 -o .", "is a folder"),
        ("mine.py:step -n 2 -c 2", "is a step, whose order is known only by running it"),
        ("mine.py:nothing -n 2 -c 2", "has no function 'nothing'"),
        ("none.py:plan -n 2 -c 2", "there is no file none.py"),
        ("none.csv", "there is no file none.csv"),
        ("good.csv -n 3", "good.csv has 2 ranks"),
        ("good.csv -c 3", "good.csv has 2 microbatches"),
        ("empty.csv", "no action in the CSV"),
        ("words.csv", "line 1, cell 2: not an action: 'zz'"),
        ("bytes.csv", "bytes.csv is no text"),
        ("huge.csv", "cell 2: not an action: '0F99999999999'"),
        ("1f1b -n 4096 -c 4096", "16777216 times ranks and microbatches are too many"),
        ("folder.csv", "folder.csv is a folder"),
    ],
)
def test_bad_input_is_one_line(words: str, told: str, folder: Path, plot: Plot) -> None:
    (folder / "empty.csv").write_text("")
    (folder / "words.csv").write_text("0F0,zz\n")
    (folder / "bytes.csv").write_bytes(b"\x00\xff")
    (folder / "huge.csv").write_text("0F0,0F99999999999\n")
    (folder / "folder.csv").mkdir()
    done = plot(*words.split())
    assert (done.status, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert told in done.stderr


def test_a_shape_that_a_schedule_refuses_is_one_line(plot: Plot) -> None:
    done = plot("dualpipe", "-n", 3, "-c", 8)
    assert (done.status, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("error: dualpipe: ")


def test_a_file_is_written_whole_and_nothing_printed(folder: Path, plot: Plot) -> None:
    done = plot("1f1b", "-n", 2, "-c", 2, "-o", "plot.txt")
    assert (done.status, done.stdout, done.stderr) == (0, "", "")
    assert (folder / "plot.txt").read_text() == plot("1f1b", "-n", 2, "-c", 2).stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_costs_the_status_and_not_the_plot(plot: Plot) -> None:
    done = plot("1f1b", "-n", 2, "-c", 2, "-o", "/dev/full")
    assert done.status == 2
    assert done.stderr == (
        "error: cannot write /dev/full: No space left on device; it is on standard output\n"
    )
    assert done.stdout.startswith("1f1b world=2")


DOCS = (Path(__file__).parents[2] / "docs" / "plot.md").read_text()


def test_the_documentation_shows_what_is_printed(plot: Plot) -> None:
    ((command, shown),) = re.findall(r"```console\n\$ harness plot (.*)\n([\s\S]*?)```", DOCS)
    assert plot(*command.split()).stdout == shown


PROBE = """
import sys
from harness.cli import main
status = main(["plot", "1f1b", "-n", "4", "-c", "8"])
heavy = [name for name in ("torch", "hypothesis", "rich", "numpy") if name in sys.modules]
assert not heavy, heavy
"""


def test_a_plot_in_a_pipe_imports_nothing_heavy_and_no_colour() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout


def test_the_help_says_what_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "TARGET [TARGET2]" in shown
    assert "critical path" in shown
