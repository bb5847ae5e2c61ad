"""``harness bench``: what it refuses, what it measures, and what it leaves behind."""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.bench import contenders as contending
from harness.bench import measure as measuring
from harness.bench.contenders import Contender
from harness.bench.measure import Bench, Figure, take
from harness.bench.options import BenchOptions
from harness.bench.progress import ends_in, failure_in
from harness.bench.table import render

Harness = Callable[..., Any]

BAD = {
    "--worlds 0": "--world",
    "--worlds 2..9": "out of range: allowed are 1 to 8",
    "--worlds two": "is no number",
    "--cases 0": "--cases 0 is too small",
    "--cases many": "is no whole number",
    "--seconds 0": "give a number of seconds above 0",
    "--backend glooo": "did you mean gloo?",
    "--backend gloo,": "give a list like sim,gloo",
    "--format junit": "'text', 'json'",
    "-o no/such/folder/figures.json": "create it first",
    "extra": "unexpected extra argument",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_usage_is_told_in_one_line_with_exit_status_2(harness: Harness, words: str) -> None:
    ended = harness("bench", *words.split())
    assert (ended.status, ended.stdout) == (2, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: ")
    assert BAD[words] in line


FIGURES = [
    Figure("sim", "world", 2, cases=20, elapsed_s=4.0, first_case_s=3.8),
    Figure("gloo", "world", 2, cases=20, elapsed_s=10.0, first_case_s=5.0),
    Figure(
        "MultiProcessTestCase", "peer", 2, cases=2, elapsed_s=20.0, first_case_s=9, cut_short=True
    ),
    Figure("MultiProcContinuousTest", "peer", 2, error="no such class", available=False),
]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Figures that are not taken."""
    figures = list(FIGURES)
    monkeypatch.setattr(
        measuring, "measure", lambda options, progress: Bench(options, list(figures))
    )
    return figures


@pytest.mark.usefixtures("measured")
def test_the_table_has_a_row_for_each_figure_and_says_why_one_is_not_there(
    harness: Harness,
) -> None:
    ended = harness("bench", "-n", "2")
    assert (ended.status, ended.stderr) == (0, "")
    head, sim, gloo, process, continuous, _, note = ended.stdout.splitlines()[4:]
    assert head.split()[:4] == ["world", "contender", "cases", "seconds"]
    assert sim.split() == ["2", "sim", "20", "4", "5", "3.8", "0.0105", "50"]
    assert gloo.split() == ["2", "gloo", "20", "10", "2", "5", "0.263", "20"]
    assert process.split() == ["2", "MultiProcessTestCase", "2", "(limit)", "20", "0.1", "9", "11"]
    assert continuous.split() == ["2", "MultiProcContinuousTest", "not", "available"]
    assert note == "  MultiProcContinuousTest: not available: no such class"
    assert "1f1b chunks=8 batch=16" in ended.stdout.splitlines()[0]


def kinds(value: Any) -> Any:
    """The types in a document, the first item of a list standing for all."""
    if isinstance(value, dict):
        return {name: kinds(each) for name, each in value.items()}
    if isinstance(value, list):
        return [kinds(each) for each in value[:1]]
    return type(value).__name__


SCHEMA = {
    "schema": "int",
    "case": "str",
    "cases": "int",
    "limit_s": "float",
    "machine": {"cores": "int", "platform": "str", "python": "str", "torch": "str"},
    "figures": [
        {
            "contender": "str",
            "kind": "str",
            "world": "int",
            "available": "bool",
            "cases": "int",
            "elapsed_s": "float",
            "cases_per_s": "float",
            "first_case_s": "float",
            "further_case_s": "float",
            "cut_short": "bool",
            "error": "NoneType",
        }
    ],
    "ratios": [{"contender": "str", "peer": "str", "world": "int", "ratio": "float"}],
    "interrupted": "bool",
}


@pytest.mark.usefixtures("measured")
def test_the_json_has_its_schema_and_goes_into_a_file(harness: Harness, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    ended = harness("bench", "--format", "json", "-o", file)
    assert (ended.status, ended.stdout) == (0, "")
    document = json.loads(file.read_text())
    assert kinds(document) == SCHEMA
    assert document["schema"] == 1
    ratios = {(r["contender"], r["peer"]): r["ratio"] for r in document["ratios"]}
    assert ratios == {
        ("sim", "MultiProcessTestCase"): 50.0,
        ("sim", "MultiProcContinuousTest"): None,
        ("gloo", "MultiProcessTestCase"): 20.0,
        ("gloo", "MultiProcContinuousTest"): None,
    }


def test_a_world_that_fails_is_told_and_exits_2(harness: Harness, measured: list[Figure]) -> None:
    measured[1] = Figure("gloo", "world", 2, error="no case had ended after 60 s")
    ended = harness("bench")
    assert ended.status == 2
    assert ended.stderr == (
        "error: gloo on 2 ranks could not be measured: no case had ended after 60 s\n"
    )
    assert "gloo, 2 ranks: failed: no case had ended after 60 s" in ended.stdout


def test_an_interrupt_leaves_the_figures_that_there_are(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Figure:
        raise KeyboardInterrupt

    monkeypatch.setattr(measuring, "take", interrupted)
    ended = harness("bench", "--backend", "gloo", "-q")
    assert ended.status == 2
    assert ended.stderr == "error: interrupted after 0 figures\n"


def test_a_world_that_cannot_be_opened_is_a_figure_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from harness.case import UsageError

    def refuse(name: str) -> str:
        raise UsageError(f"backend {name} is not available yet: use --backend gloo")

    monkeypatch.setattr(contending, "backend_name", refuse)
    monkeypatch.setattr(contending, "PEERS", ())
    sim, *_ = contending.contenders(BenchOptions(("sim",)))
    assert (sim.name, sim.missing) == ("sim", "backend sim is not available yet")
    figure = measuring.measure(BenchOptions(("sim",), (2,))).figures[0]
    assert (figure.available, figure.error) == (False, sim.missing)
    assert "sim: not available: backend sim is not available yet" in render(
        Bench(BenchOptions(), [figure])
    )


def test_torchs_classes_say_which_package_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    peers = contending.contenders(BenchOptions(()))
    assert [peer.name for peer in peers] == ["MultiProcessTestCase", "MultiProcContinuousTest"]
    assert all(peer.missing and "pip install expecttest" in peer.missing for peer in peers)


def test_a_processs_output_is_read_whatever_else_it_prints() -> None:
    output = "hello\n@case 1.500000\nnoise @case 7\n@case 2.000000\n@failed no such thing\n"
    assert ends_in(output) == [1.5, 2.0]
    assert failure_in(output) == "no such thing"
    assert failure_in("") is None


def script(monkeypatch: pytest.MonkeyPatch, source: str) -> Contender:
    """A contender that runs this source."""
    import sys

    command = [sys.executable, "-c", source]
    monkeypatch.setattr(Contender, "command", lambda self, world, cases: command)
    return Contender("script", "world")


def test_a_process_that_fails_is_told_by_its_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = take(script(monkeypatch, "raise ValueError('bad luck')"), 2, 1, 60)
    assert figure.error == "the process ended with status 1: ValueError: bad luck"
    assert (figure.cases, figure.cases_per_s) == (0, None)


HANGS = """
import subprocess, sys, time
from harness.bench.progress import case_ended
case_ended()
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
time.sleep(600)
"""


def test_the_limit_ends_a_process_with_what_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = marked(monkeypatch)
    figure = take(script(monkeypatch, HANGS), 2, 5, 3)
    assert (figure.cases, figure.cut_short, figure.error) == (1, True, None)
    assert left_behind(mark) == []


@pytest.mark.gloo
def test_a_real_figure_leaves_nothing_behind_whether_it_ends_or_is_cut_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark = marked(monkeypatch)
    contender = Contender("gloo", "world")
    whole = take(contender, 2, 1, 120)
    assert (whole.cases, whole.cut_short, whole.error) == (1, False, None)
    assert whole.cases_per_s is not None
    cut = take(contender, 2, 100_000, whole.first_case_s or 1)
    assert cut.cut_short
    assert left_behind(mark) == []


@pytest.mark.gloo
@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("expecttest") is None, reason="torch's test classes need expecttest"
)
@pytest.mark.parametrize("name", contending.PEERS)
def test_torchs_classes_run_the_case(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    mark = marked(monkeypatch)
    figure = take(Contender(name, "peer"), 2, 1, 200)
    assert (figure.cases, figure.error) == (1, None)
    assert left_behind(mark) == []


def marked(monkeypatch: pytest.MonkeyPatch) -> str:
    """Mark what is started from now on by its environment."""
    mark = f"HARNESS_TEST_MARK={os.getpid()}-{time.monotonic_ns()}"
    monkeypatch.setenv(*mark.split("="))
    return mark


def left_behind(mark: str, within: float = 10.0) -> list[str]:
    """Command lines of the marked processes that still run after that many seconds."""
    deadline = time.monotonic() + within
    while (left := _running(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _running(mark: str) -> list[str]:
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            if "=".join(["HARNESS_TEST_MARK", environment.get("HARNESS_TEST_MARK", "")]) == mark:
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found
