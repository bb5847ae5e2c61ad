"""docs/own-model.md: its file has at most 30 lines and is clean; faults planted in it are found."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.own_model.files import PAGE, ROOT, SHOWN, findings, only, write

HARNESS = Path(sys.executable).with_name("harness")
TIED = (
    "        dist.all_reduce((stage.module[0][0] if stage.is_first else stage.module[-1])"
    ".weight.grad, group=ends)\n"
)
SECOND_DROPPED = (
    "        x[0].requires_grad_(not stage.is_first)\n",
    "        x[1:2] = [t * 0 for t in x[1:2]]\n        x[0].requires_grad_(not stage.is_first)\n",
)


def check(*arguments: str, folder: Path = ROOT) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [HARNESS, "check", *arguments, "--format", "json", "--no-confirm", "--in-process"],
        cwd=folder,
        env=os.environ | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, report


def test_the_file_that_is_shown_has_at_most_30_lines_and_is_clean(tmp_path: Path) -> None:
    assert len(SHOWN.splitlines()) <= 30
    write(tmp_path)
    arguments = ("own.py:step", "-n", "1..3", "-c", "2,3", "--cases", "4")
    status, report = check(*arguments, folder=tmp_path)
    assert (status, report["outcome"]) == (0, "clean")
    assert report["tried"]["compared"] == 4
    assert set(report["tried"]["dtype"]) == {"float32", "float64"}


def test_its_tied_gradient_that_is_not_summed_is_found(tmp_path: Path) -> None:
    write(tmp_path, (TIED, "        pass\n"))
    arguments = ("own.py:step", "-n", "3", "-c", "2", "--cases", "1")
    status, report = check(*arguments, folder=tmp_path)
    (finding,) = report["findings"]
    assert status == 1
    assert (finding["code"], finding["cause"]) == ("gradient-mismatch", "tied-not-summed")
    assert finding["ranks"] == [0, 2]
    assert "0.0.weight" in finding["message"]
    assert "tied to stage 2" in finding["message"]
    assert "its own stage's part alone" in finding["message"]
    assert "all_reduce" in finding["help"]
    assert {(o["rank"], o["op"]) for o in finding["operations"]} == {
        (0, "backward"),
        (2, "backward"),
    }
    assert all(word not in finding["case"] for word in ("layers=", "width=", "workload="))


def test_its_second_input_that_is_dropped_is_found(tmp_path: Path) -> None:
    finding = only(write(tmp_path, SECOND_DROPPED))
    assert finding.code == "gradient-mismatch"
    assert "input 1 of the first stage's forward was not the batch's own" in finding.message
    (operation,) = finding.operations
    assert (operation.rank, operation.op) == (0, "forward")
    missing = only(write(tmp_path, ("stage(*x))", "stage(*x[:2]))")))
    assert missing.code == "rank-error"
    assert "stage 0 is called as stage(x0, x1, x2): got 2" in missing.message


@pytest.mark.gloo
def test_it_is_the_same_on_real_ranks(tmp_path: Path) -> None:
    assert findings(write(tmp_path), backend="gloo") == []
    finding = only(write(tmp_path, (TIED, "        pass\n")), backend="gloo")
    assert (finding.code, finding.cause) == ("gradient-mismatch", "tied-not-summed")


@pytest.mark.parametrize(("name", "chunks"), [("megatron_like", (1, 4)), ("dualpipe_like", (6, 8))])
def test_each_worked_example_is_clean(name: str, chunks: tuple[int, int]) -> None:
    assert f"examples/{name}.py" in PAGE
    target = f"examples/{name}.py:step"
    asked = ("-n", "1..3", "-c", ",".join(map(str, chunks)), "--cases", "3")
    status, report = check(target, *asked)
    assert (status, report["findings"]) == (0, [])
    assert report["tried"]["compared"] == 3


def test_every_file_that_the_page_links_is_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", PAGE)
    assert links
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
