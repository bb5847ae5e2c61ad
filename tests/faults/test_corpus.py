"""Entries and folders of them: what is read, and what is refused with which words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.faults.corpus import chosen, find, read_corpus
from harness.faults.entry import CorpusError, read_entry
from harness.faults.examine import examine
from harness.faults.label import CLASSES, LabelError, read_label
from harness.faults.page import as_json, render_page
from harness.options import SEMANTICS

PAGE = '''"""One rank sends and nobody receives.

Does: Rank 0 sends.

Wrong: Rank 1 receives nothing.

Shows: Rank 0 hangs.

Instead: Receive.
"""
'''
BODY = """
import torch
import torch.distributed as dist

LABEL = {label}


def faulty(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(2), 1)  # fault


def correct(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(2), 1)
    else:
        dist.recv(torch.ones(2), 0)
"""
LABEL: dict[str, Any] = {
    "class": "my-own",
    "scope": "program",
    "source": "a user's own",
    "world": 2,
    "code": "orphan-wait",
    "ranks": [0],
    "semantics": {"buffered": "unreceived-message"},
}


def write(folder: Path, name: str = "lone_send", body: str = BODY, **changes: Any) -> Path:
    label = {name: value for name, value in (LABEL | changes).items() if value != "absent"}
    folder.mkdir(exist_ok=True, parents=True)
    file = folder / f"{name}.py"
    file.write_text(PAGE + body.replace("{label}", repr(label)))
    return file


def test_an_entry_is_read_without_being_run(tmp_path: Path) -> None:
    file = write(tmp_path, body=BODY + "\nraise SystemExit('it was run')\n")
    entry = read_entry(file)
    assert (entry.id, entry.label.kind, entry.label.ranks) == ("lone-send", "my-own", (0,))
    assert entry.page.title == "One rank sends and nobody receives."
    (line,) = entry.marks
    assert "dist.send" in file.read_text().splitlines()[line - 1]


def test_labels_say_what_each_semantics_shows() -> None:
    label = read_label(LABEL)
    assert label.expected("sim") == label.expected("gloo") == "orphan-wait"
    assert label.expected("sim", "buffered") == "unreceived-message"
    hazard = read_label(LABEL | {"code": "nccl-hazard", "semantics": {}})
    assert [hazard.expected("sim", name) for name in SEMANTICS["sim"]] == [
        *(None, None),
        *("nccl-hazard", "nccl-hazard"),
    ]
    assert (hazard.expected("gloo"), hazard.expected("nccl")) == (None, "nccl-hazard")
    assert read_label(LABEL | {"backends": {"gloo": None}}).expected("gloo") is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"code": "deadlok"}, "no such code"),
        ({"scope": "thing"}, "one of program, script, step, plan"),
        ({"chunks": 2}, "LABEL of a program has no 'chunks'"),
        ({"scope": "step"}, "LABEL of a step needs 'chunks'"),
        ({"world": 0}, "a number from 1 up"),
        ({"world": "two"}, "a number from 1 up"),
        ({"class": "My Own"}, "lower-case words"),
        ({"source": ""}, "text is needed"),
        ({"ranks": "0"}, "a list of numbers"),
        ({"semantics": {"mpi": None}}, "allowed are gloo, buffered"),
        ({"semantics": {"gloo": "nothing"}}, "no such code"),
        ({"backends": {"sim": None}}, "allowed are gloo, nccl"),
        ({"options": {"colour": 1}}, "allowed for a program are timeout"),
        ({"options": {"cases": 1}}, "allowed for a program are timeout"),
        ({"options": {"timeout": "x"}}, "a number of seconds"),
        ({"options": {"args": 3}}, "a list of words"),
        ({"code": ["deadlock"]}, "no such code"),
        ({"ranks": [0, 2]}, "the world has 2"),
        ({"deterministic": "no"}, "True or False"),
        ({"colour": 1}, "LABEL has 'colour'"),
    ],
)
def test_a_label_that_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(LabelError, match=said):
        read_label(LABEL | changes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "it has no LABEL"),
        ("LABEL = dict(a=f())", "a dictionary of literals"),
        ("LABEL = [1]", "a dictionary is needed"),
        ("LABEL = {[1]: 2}", "a dictionary of literals"),
        ("def faulty(:", "is not Python, line 1"),
        (BODY.replace("{label}", repr(LABEL)), "its docstring lacks"),
        (
            PAGE.replace("Shows:", "Seen:") + BODY.replace("{label}", repr(LABEL)),
            "lacks the paragraph 'Shows: …'",
        ),
        (
            PAGE + BODY.replace("{label}", repr(LABEL)).replace("def correct", "def right"),
            "has no function correct",
        ),
    ],
)
def test_a_file_that_is_no_entry_is_named_with_what_it_lacks(
    text: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    with pytest.raises(CorpusError, match=said) as caught:
        read_entry(file)
    assert "mine.py" in str(caught.value)


def test_a_folder_is_a_corpus(tmp_path: Path) -> None:
    write(tmp_path / "sends", "lone_send")
    write(tmp_path / "sends", "another", source="elsewhere")
    (tmp_path / "sends" / "_helper.py").write_text("x = 1\n")
    entries = read_corpus(tmp_path)
    assert [entry.id for entry in entries] == ["another", "lone-send"]
    assert [entry.id for entry in chosen(entries, sources=["ELSE"])] == ["another"]
    assert find(entries, "lone_send").id == "lone-send"
    with pytest.raises(CorpusError, match="did you mean lone-send"):
        find(entries, "lone-sent")
    with pytest.raises(CorpusError, match="the classes are my-own"):
        chosen(entries, kinds=["graph"])


def test_what_is_no_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="there is no folder"):
        read_corpus(tmp_path / "nowhere")
    with pytest.raises(CorpusError, match="holds no entry"):
        read_corpus(tmp_path)
    write(tmp_path / "a")
    write(tmp_path / "b")
    with pytest.raises(CorpusError, match="are both lone-send"):
        read_corpus(tmp_path)


def test_the_verdict_on_an_entry_that_is_as_labelled(tmp_path: Path) -> None:
    verdict = examine(read_entry(write(tmp_path)))
    assert (verdict.found, verdict.right_code, verdict.right_place) == (True, True, True)
    assert (verdict.noise, verdict.alarms, verdict.elsewhere, verdict.why) == (0, (), (), ())


@pytest.mark.parametrize(
    ("changes", "replace", "said"),
    [
        ({"code": "deadlock"}, None, "the code is orphan-wait"),
        ({"ranks": [1]}, None, r"the ranks are \[0\], not \[1\]"),
        ({"cause": "order"}, None, "the cause is missing-receive, not order"),
        ({"details": {"why": "no"}}, None, "details.why is "),
        ({}, ("  # fault", ""), ""),
        (
            {},
            ("def faulty(rank, world_size):", "def faulty(rank, world_size):  # fault"),
            "",
        ),
    ],
)
def test_the_verdict_names_what_is_not_as_labelled(
    changes: dict[str, Any], replace: tuple[str, str] | None, said: str, tmp_path: Path
) -> None:
    body = BODY.replace(*replace) if replace else BODY
    verdict = examine(read_entry(write(tmp_path, body=body, **changes)), all_semantics=False)
    assert verdict.found
    if said:
        assert not verdict.right_place
        assert re.search(said, " ".join(verdict.why))
    else:
        assert verdict.right_place


def test_a_mark_at_another_line_is_not_the_place(tmp_path: Path) -> None:
    body = BODY.replace("  # fault", "").replace("if rank == 0:", "if rank == 0:  # fault", 1)
    verdict = examine(read_entry(write(tmp_path, body=body)), all_semantics=False)
    assert (verdict.right_code, verdict.right_place) == (True, False)
    assert "it points at lines" in verdict.why[0]


def test_a_twin_that_is_wrong_is_a_false_alarm_and_semantics_are_compared(tmp_path: Path) -> None:
    body = BODY.replace("dist.recv(torch.ones(2), 0)", "pass")
    verdict = examine(read_entry(write(tmp_path, body=body, semantics={})))
    assert verdict.alarms
    assert verdict.alarms[0].startswith("orphan-wait")
    assert verdict.elsewhere == ("buffered: orphan-wait, got unreceived-message",)


def test_a_program_that_cannot_be_simulated_is_told_as_that(tmp_path: Path) -> None:
    thread = "import threading\n    threading.Thread(target=dist.barrier).start()\n    "
    body = BODY.replace("    if rank == 0:", f"    {thread}if rank == 0:", 1)
    verdict = examine(read_entry(write(tmp_path, body=body)), all_semantics=False)
    assert not verdict.found
    assert "thread" in verdict.why[0]


def test_every_built_in_entry_has_a_class_a_page_and_a_mark() -> None:
    entries = read_corpus()
    assert len(entries) > 200  # as the README says
    assert {entry.label.kind for entry in entries} == set(CLASSES)
    for entry in entries:
        assert entry.path.parent.name == entry.label.kind.replace("-", "_"), entry.path
        text = render_page(entry)
        assert "Instead" in text
        assert json.loads(json.dumps(as_json(entry)))["id"] == entry.id
        assert "FACTS" not in entry.label.source, entry.path
        placeless = entry.label.code in (
            *("init-mismatch", "layer-mismatch", "timeout", "rank-death"),
        )
        assert entry.marks or placeless, entry.path


def test_the_commands_on_a_user_s_own_corpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path)
    corpus = ["--corpus", str(tmp_path)]
    assert main(["faults", "list", *corpus]) == 0
    assert "lone-send  orphan-wait  One rank sends" in capsys.readouterr().out
    assert main(["faults", "list", *corpus, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["class"] == "my-own"
    assert main(["faults", "show", "lone-send", *corpus]) == 0
    shown = capsys.readouterr().out
    for part in ("Why it is wrong", "error[orphan-wait]", "! send to 1", "Correct"):
        assert part in shown
    assert main(["faults", "run", "lone-send", *corpus, "-q"]) == 1
    assert "error[orphan-wait]" in capsys.readouterr().out
    assert main(["faults", "run", "lone-send", *corpus, "--twin"]) == 0
    capsys.readouterr()
    assert main(["faults", "run", "lone-sent", *corpus]) == 2
    assert "did you mean lone-send" in capsys.readouterr().err


def test_the_score_of_a_user_s_own_corpus_and_its_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, ranks=[1])
    words = ["faults", "score", "--corpus", str(tmp_path)]
    assert main(words) == 1
    assert "1 below the baseline" in capsys.readouterr().out
    assert main([*words, "--update"]) == 0
    assert json.loads((tmp_path / "baseline.json").read_text()) == {"sim": {"lone-send": ["place"]}}
    assert main([*words, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out.partition("{")[2].join(["{", ""]))
    assert document["all"]["right_place"] == 0
    assert document["entries"][0]["why"] == ["the ranks are [0], not [1]"]
    (tmp_path / "baseline.json").write_text("[]")
    assert main(words) == 2
    assert "is no baseline" in capsys.readouterr().err


def test_an_entry_that_cannot_be_run_is_no_missed_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, body="raise ImportError('not here')\n" + BODY)
    assert main(["faults", "score", "--corpus", str(tmp_path)]) == 2
    assert "lone-send could not be run" in capsys.readouterr().err


def test_a_backend_that_is_not_here_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path)
    words = ["faults", "score", "--corpus", str(tmp_path), "--backend", "nccl", "--update"]
    assert main(words) == 2
    assert "backend nccl" in capsys.readouterr().err
    assert not (tmp_path / "baseline.json").exists()


def test_a_broken_baseline_is_made_anew_when_asked(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "baseline.json").write_text("[" * 100_000)
    words = ["faults", "score", "--corpus", str(tmp_path)]
    assert main(words) == 2
    assert main([*words, "--update"]) == 0
    assert json.loads((tmp_path / "baseline.json").read_text()) == {"sim": {}}
