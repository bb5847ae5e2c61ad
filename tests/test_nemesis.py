"""Faults from outside: what is harmless harms nothing, what is not is found and named."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

import harness
from harness import nemesis
from harness.case import Case, UsageError
from harness.cli import main
from harness.findings import Finding, Report

RINGS = f"{Path(__file__).parent / 'programs' / 'rings.py'}:"
RING = RINGS + "ring"
BACKENDS = ["sim", pytest.param("gloo", marks=pytest.mark.gloo)]


def run(what: str, backend: str = "sim", program: str = RING, world: int = 3) -> Report:
    semantics = "gloo" if backend == "sim" else None
    return harness.run(
        program, world, backend=backend, semantics=semantics, confirm=False, nemesis=what
    )


def only(report: Report) -> Finding:
    (finding,) = report.findings
    return finding


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("what", ["delay@0.1", "pause@1.2", "slow-link@2.0", "reorder@0.0"])
def test_what_is_harmless_harms_nothing(what: str, backend: str) -> None:
    report = run(what, backend)
    assert report.findings == [], str(report)
    assert what in str(report)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_killed_rank_is_the_only_one_that_is_reported(backend: str) -> None:
    finding = only(run("kill@1.3", backend))
    assert (finding.code, finding.ranks) == ("rank-death", (1,))
    assert signal.Signals.SIGKILL.name in finding.message
    assert "before call 3 of rank 1" in finding.details["injected"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("what", "cause", "codes"),
    [
        ("drop@0.2", "lost-message", {"deadlock", "orphan-wait"}),
        ("duplicate@0.1", "doubled-message", {"deadlock", "orphan-wait", "unreceived-message"}),
        ("corrupt@0.1", "changed-message", {"buffer-overwrite"}),
    ],
)
def test_a_message_that_suffers_is_found_and_named(
    what: str, cause: str, codes: set[str], backend: str
) -> None:
    finding = only(run(what, backend))
    assert finding.cause == cause
    assert finding.code in codes
    assert f"message {what[-1]} of rank 0" in finding.details["why"]
    assert "nemesis=" + what in finding.case
    if cause == "changed-message":
        assert {(op.rank, op.op) for op in finding.operations} == {(0, "isend"), (1, "recv")}


def test_a_replay_does_the_same_again() -> None:
    finding = only(run("drop@0.2"))
    again = only(harness.replay(finding.case))
    assert (again.code, again.cause, again.ranks) == (finding.code, finding.cause, finding.ranks)


@pytest.mark.parametrize("schedule", ["naive", "gpipe", "1f1b"])
def test_schedules_go_through_what_is_harmless(schedule: str) -> None:
    report = harness.check(schedule, nemesis="harmless", cases=10, confirm=False)
    assert report.findings == [], str(report)
    assert set(report.tried["nemesis"]) == set(nemesis.HARMLESS)


@pytest.mark.gloo
def test_a_schedule_on_real_ranks_goes_through_it_too() -> None:
    report = harness.check("1f1b", backend="gloo", nemesis="harmless", cases=6)
    assert report.findings == [], str(report)


@pytest.mark.parametrize(
    ("what", "code", "cause"),
    [
        ("kill", "rank-death", None),
        ("drop", None, "lost-message"),
        ("duplicate", None, "doubled-message"),
        ("corrupt", "buffer-overwrite", "changed-message"),
    ],
)
def test_a_check_finds_shrinks_and_names_them(
    what: str, code: str | None, cause: str | None
) -> None:
    report = harness.check("1f1b", nemesis=what, cases=8, seed=3, confirm=False)
    assert report.findings, str(report)
    for finding in report.findings:
        assert finding.cause == cause
        assert code is None or finding.code == code
        assert f"nemesis={what}@" in finding.case
        assert what in finding.details["injected"]
    assert "world=2" in report.findings[0].case


def test_several_injections_are_shrunk_to_the_one_that_matters() -> None:
    case = Case("1f1b", 2, chunks=2, nemesis="delay@0.1+kill@1.2+pause@0.0")
    assert {c.nemesis for c in nemesis.simpler(case)} == {
        "kill@1.2+pause@0.0",
        "delay@0.1+pause@0.0",
        "delay@0.1+kill@1.2",
    }
    assert [c.nemesis for c in nemesis.simpler(case.with_(nemesis="kill@1.2"))] == [None]


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 30))
def test_what_is_drawn_depends_on_the_seed_alone_and_fits(
    seed: int, world: int, reach: int
) -> None:
    text = nemesis.draw(tuple(nemesis.KINDS), seed, world, reach)
    assert text == nemesis.draw(tuple(nemesis.KINDS), seed, world, reach)
    assert text
    injections = nemesis.parse(text)
    assert all(i.rank < world and i.place < reach for i in injections)
    assert sum(i.operator in nemesis.HARMFUL for i in injections) <= 1
    assert Case.parse(str(Case("1f1b", world, nemesis=text))).nemesis == text
    assert nemesis.describe(text)


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ("kil", "did you mean kill"),
        ("kill@1", "kill@1: OPERATOR@RANK.PLACE"),
        ("flood@1.2", "the operators are delay"),
        ("", "give some of delay"),
    ],
)
def test_what_is_no_fault_is_refused(given_: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        nemesis.read_kinds(given_)


def test_groups_of_kinds() -> None:
    assert nemesis.read_kinds("harmless, kill") == (*nemesis.HARMLESS, "kill")
    assert nemesis.read_kinds("all") == tuple(nemesis.KINDS)
    assert nemesis.draw(("full-disk",), 0, 2, 4) is None


def test_reordering_is_for_gloo_s_semantics_only() -> None:
    case = Case("1f1b", 2, nemesis="reorder@0.0")
    assert nemesis.restricted(case).semantics == "gloo"
    assert nemesis.restricted(case.with_(semantics="buffered")).semantics == "buffered"
    assert nemesis.restricted(case.with_(nemesis="delay@0.0")).semantics is None


@pytest.mark.parametrize("value", [1.5, -1.0, 0.0, 3, True])
def test_a_changed_message_differs_and_the_original_does_not(value: Any) -> None:
    tensor = torch.tensor([value, value])
    before = tensor.clone()
    assert not torch.equal(nemesis.changed(tensor), before)
    assert torch.equal(tensor, before)


def test_on_a_full_disk_nothing_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.json"
    words = ["check", "gpipe", "--cases", "2", "--no-confirm", "--nemesis", "full-disk"]
    assert main([*words, "--format", "json", "-o", str(file)]) == 2
    told = capsys.readouterr()
    assert '"outcome": "clean"' in told.out
    assert "No space left on device" in told.err
    assert not file.exists()


def test_a_timeline_on_a_full_disk_costs_exit_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "1f1b world=2 chunks=2", "--timeline", "/dev/full", "-q"]) == 2
    assert "No space left on device" in capsys.readouterr().err


def test_nothing_of_the_layer_stays() -> None:
    before = {name: vars(dist.ProcessGroup)[name] for name in ("send", "recv", "allreduce")}
    wait = vars(dist.Work)["wait"]
    run("kill@1.3")
    run("delay@0.1")
    assert {name: vars(dist.ProcessGroup)[name] for name in before} == before
    assert vars(dist.Work)["wait"] is wait


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", ["waits_for_its_receive_first", "makes_a_group_after_its_send"])
def test_a_message_that_is_held_back_is_sent_before_its_rank_waits(
    program: str, backend: str
) -> None:
    report = run("reorder@0.0", backend, RINGS + program, world=2)
    assert [f for f in report.findings if f.severity == "error"] == [], str(report)


@pytest.mark.parametrize("backend", BACKENDS)
def test_messages_that_anyone_may_have_taken_are_not_compared(backend: str) -> None:
    assert run("delay@0.0", backend, RINGS + "from_any_and_by_name", world=2).findings == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_watching_a_receive_does_not_keep_its_handle(backend: str) -> None:
    program = RINGS + "drops_a_receive"
    plain = harness.run(program, 2, backend=backend, confirm=False)
    watched = harness.run(program, 2, backend=backend, confirm=False, nemesis="delay@0.0")
    assert [f.code for f in watched.findings] == [f.code for f in plain.findings]


def test_what_was_never_come_to_is_no_cause() -> None:
    finding = only(run("drop@1.5", program=RINGS + "both_receive", world=2))
    assert finding.cause == "order"
    assert "which it never came to" in finding.details["injected"]


def test_an_injection_for_a_rank_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no rank 7"):
        run("kill@7.0")
    with pytest.raises(UsageError, match="not both"):
        harness.replay("1f1b world=2 chunks=2 mutant=swap@0.0 nemesis=kill@0.0")


def test_nothing_is_reordered_under_nccl() -> None:
    case = Case("1f1b", 2, semantics="nccl-eager", nemesis="reorder@0.0+delay@0.1")
    assert nemesis.restricted(case).nemesis == "delay@0.1"


def test_kinds_and_injections_go_together() -> None:
    drawn = nemesis.draw(("delay", "kill@0.0"), 3, 2, 4)
    assert drawn is not None
    assert drawn.startswith("kill@0.0+delay@")


def test_a_full_disk_without_a_file_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "gpipe", "--nemesis", "full-disk"]) == 2
    assert "goes with a file" in capsys.readouterr().err
