"""Whatever cannot be asked ends in one line that helps, exit status 2 and no traceback of ours."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.worlds import WorldError

# What is given, and words that its line must have: what is wrong, or what to do.
BAD = {
    "": "see 'harness --help'",
    "chek 1f1b": "'check'",
    "check": "TARGET",
    "check 1f1b --wrld 2": "--wrld",
    "check 1f1b --format xml": "'sarif'",
    "check 1f1c": "did you mean 1f1b?",
    "check forward-only": "its plan can be validated and plotted",
    "check plan.csv": "there is no file plan.csv",
    "check words.csv": "words.csv is no plan: line 1, cell 1: not an action: 'several words'",
    "check here.csv -n 3": "is a plan for 1 ranks and 1 chunks alone",
    "run here.csv -n 1": "harness check here.csv",
    "check mine.py:placed": 'the step\'s placement is \'w\'; it is to be "looped" or "v"',
    "run mine.py:many -n 2": "is a step, which is checked",
    "check nothing.py:step": "there is no file nothing.py",
    "check mien.py:step": "did you mean mine.py?",
    "check nowhere/mine.py:step": "there is no folder nowhere",
    "check mine.py": "names no function",
    "check mine.py:stp": "did you mean 'step'?",
    "check mine.py:short": "(stage, comms, batch, chunks)",
    "check mine.py:program": "harness run",
    "check broken.py:step": "not Python, line 1",
    "check no_such_package:step": "no_such_package",
    "check os.path:join": "cannot be checked",
    "check mine:nothing": "no function 'nothing'",
    "check 1f1b -n 0": "--world-size 0 is out of range",
    "check 1f1b -n -3": "--world-size -3 is out of range",
    "check 1f1b -n two": "2..6",
    "check 1f1b -n 65": "1 to 64",
    "check 1f1b -c 0": "--chunks 0 is out of range",
    "check 1f1b -c 6..2": "write 2..6",
    "check 1f1b -c 2,,4": "2..6",
    "check 1f1b --cases 0": "--cases 0 is too small",
    "check 1f1b --cases many": "whole number",
    "check 1f1b --seconds -1": "seconds above 0",
    "check 1f1b --timeout nan": "seconds above 0",
    "check 1f1b --timeout inf": "seconds above 0",
    "check 1f1b --seed x": "whole number",
    "check 1f1b --backend glo": "did you mean gloo?",
    "check 1f1b --backend simulated": "use --backend sim, gloo or nccl",
    "check 1f1b --semantics nccl-eagre": "did you mean nccl-eager?",
    "check 1f1b --backend gloo --semantics buffered": "leave it out",
    "run mine.py:program -n 2 --cost F=fast": "is not NAME=NUMBER",
    "run mine.py:program -n 2 --timeline no/such/folder/t.json": "no/such/folder",
    "check 1f1b --capacity 0": "goes with --semantics nccl-eager",
    "check 1f1b --semantics nccl-lazy --capacity -1": "give 0, inf or a number of bytes",
    "check 1f1b --semantics gloo --capacity 10": "goes with --semantics nccl-eager",
    "check 1f1b --policy fast": "async",
    "check mine.py:step --policy async": "is a step",
    "check 1f1b -o nowhere/report.json": "no folder nowhere",
    "check 1f1b -o .": "is a folder",
    "run script.py": "--world-size",
    "run 1f1b -n 2": "harness check 1f1b",
    "run mine.py:step -n 2": "harness check",
    "run mine.py:program -n 2..4": "give one number",
    "run broken.py -n 2": "not Python, line 1",
    "replay 1f1b": "lacks world=N",
    "replay 1f1b world=four": "world=four",
    "replay 1f1b world=2 wrld=2": "wrld=2",
    "replay world=2": "does not begin with a target",
    "replay 1f1b world=2 chunks=2 backend=simulated": "there is no backend",
    "replay 1f1b world=2 chunks=2 interleaving=other": "random:NUMBER",
    "replay 1f1b world=2 chunks=2 capacity=few": "0, inf or a number of bytes",
    "replay 1f1b world=2": "harness check 1f1b",
    "explain deadlok": "did you mean deadlock?",
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("words", BAD)
def test_bad_usage_is_told_in_one_line_with_exit_status_2(
    harness: Callable[..., Any], words: str
) -> None:
    ended = harness(*words.split())
    first, *rest = ended.stderr.splitlines()
    assert ended.status == 2
    assert ended.stdout == ""
    assert first.startswith("error: ")
    assert BAD[words] in first
    if "broken.py" not in words:  # Python's own pointer into the user's file follows there
        assert rest == []
    assert "Traceback" not in ended.stderr


@pytest.mark.usefixtures("folder")
def test_an_import_error_of_the_target_shows_the_users_traceback_only(
    harness: Callable[..., Any],
) -> None:
    ended = harness("check", "missing.py:step")
    first, *rest = ended.stderr.splitlines()
    assert ended.status == 2
    assert first == (
        "error: missing.py fails to load: ModuleNotFoundError: No module named 'no_such_module'"
    )
    assert [line for line in rest if line.startswith("  File")] == [
        f'  File "{Path.cwd() / "missing.py"}", line 1, in <module>'
    ]


def test_a_backend_that_is_missing_is_told_in_one_line(
    harness: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(backend: str, **how: object) -> None:
        raise WorldError("backend nccl: 4 ranks need 4 GPUs and 0 are visible")

    monkeypatch.setattr("harness.worlds.open_world", refuse)
    ended = harness("check", "1f1b", "--backend", "nccl")
    assert (ended.status, ended.stderr.count("\n")) == (2, 1)
    assert "need 4 GPUs" in ended.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_output_file_that_may_not_be_written_is_refused(
    harness: Callable[..., Any], folder: Path
) -> None:
    (folder / "report.json").touch(mode=0o400)
    ended = harness("check", "1f1b", "-o", "report.json")
    assert ended.status == 2
    assert "cannot be written (Permission denied)" in ended.stderr


def test_nothing_runs_before_all_targets_and_options_are_read(
    harness: Callable[..., Any], campaign: Any
) -> None:
    assert harness("check", "1f1b", "1f1c").status == 2
    assert harness("check", "1f1b", "-o", "nowhere/report").status == 2
    assert campaign.targets == []


def test_a_fault_of_ours_is_one_line_too(
    harness: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise RuntimeError("first\nsecond")

    monkeypatch.setattr("harness.fuzz.campaign", fail)
    monkeypatch.delenv("HARNESS_DEBUG", raising=False)
    ended = harness("check", "1f1b")
    assert ended.status == 2
    assert ended.stderr == (
        "error: internal: RuntimeError: first second: please report this "
        "(HARNESS_DEBUG=1 shows where it arose)\n"
    )
    monkeypatch.setenv("HARNESS_DEBUG", "1")
    assert "in fail" in harness("check", "1f1b").stderr


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "target"),
    [("check 1f1b --format json --wrld 2", "1f1b"),
     ("check --format=json mine.py:stp", "mine.py:stp"),
     ("run -q -n 2 --format json nothing.py", "nothing.py"),
     ("check 1f1b --format json -o nowhere/report.json", "1f1b")],
)  # fmt: skip
def test_a_report_by_machine_is_one_that_says_the_error(
    harness: Callable[..., Any], words: str, target: str
) -> None:
    ended = harness(*words.split())
    report = json.loads(ended.stdout)
    assert ended.status == 2
    assert ended.stderr == f"error: {report['error']}\n"
    assert (report["schema"], report["outcome"], report["findings"]) == (1, "error", [])
    assert report["target"] == target


def test_what_a_world_cannot_do_is_in_the_report_too(
    harness: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    def refuse(backend: str, **how: object) -> None:
        raise WorldError("backend nccl: 4 ranks need 4 GPUs and 0 are visible")

    monkeypatch.setattr("harness.worlds.open_world", refuse)
    words = ("check", "1f1b", "--backend", "nccl", "--format", "json", "-o", "report.json")
    ended = harness(*words)
    report = json.loads((folder / "report.json").read_text())
    assert (ended.status, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert (report["target"], report["backend"], report["outcome"]) == ("1f1b", "nccl", "error")
    assert "need 4 GPUs" in report["error"]


def test_a_programs_own_arguments_ask_for_no_report(harness: Callable[..., Any]) -> None:
    assert harness("run", "nothing.py", "-n", "2", "--", "--format", "json").stdout == ""


def test_the_targets_before_a_world_that_fails_keep_their_reports(
    harness: Callable[..., Any], campaign: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_the_second(target: Any, *args: Any, **options: Any) -> Any:
        if target.text == "gpipe":
            raise WorldError("the fork server was killed")
        return campaign(target, *args, **options)

    monkeypatch.setattr("harness.fuzz.campaign", fail_the_second)
    ended = harness("check", "naive", "gpipe", "1f1b")
    assert ended.status == 2
    assert "naive: no finding" in ended.stdout
    assert "gpipe: error: the fork server was killed" in ended.stdout
    assert "1f1b: no finding" in ended.stdout
