"""Whole campaigns of mutants, and the verdict on each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import harness
from harness import session
from harness.case import Case, UsageError
from harness.cli import main
from harness.execute import CaseResult
from harness.findings import Finding
from harness.mutate.calls import OPERATORS
from harness.mutate.campaign import Mutant, Mutation, judged, mutate, shapes
from harness.mutate.meaning import meaning_of
from harness.mutate.plans import plan_mutants
from harness.options import check_options
from harness.parity.results import StageResult, StepResult
from harness.trace import Trace
from harness.worlds import Outcome, RankOutcome
from pipeline.lower import get_policy, lower
from pipeline.plan import build_plan

EXAMPLES = Path(__file__).parents[2] / "examples"
COURSE = Path(__file__).parents[1] / "programs" / "course"


def campaign(target: str, **given: object) -> Mutation:
    options = check_options(isolated=True, **given)  # type: ignore[arg-type]
    world = session.shared_world("sim", isolated=True)
    return mutate(session.prepare(target, "check", options), options, world)


@pytest.mark.parametrize(
    "target",
    ["naive", "1f1b", "interleaved", "zb-h1", "zbv", "dualpipe", f"{EXAMPLES / 'gpipe.py'}:step"],
)
def test_every_mutant_that_means_something_else_is_caught(target: str) -> None:
    mutation = campaign(target, cases=40)
    assert len(mutation.tried) == 40
    assert mutation.left_out > 100
    assert mutation.of("missed") == []
    assert mutation.of("alarm") == []
    assert len(mutation.of("caught")) > 25


@pytest.mark.parametrize(
    ("target", "asked", "found"),
    [
        ("zbv", {}, [(3, 3)]),
        ("dualpipe", {}, [(2, 4)]),
        ("dualpipev", {}, [(2, 4)]),
        ("dualpipev", {"world_size": "3,4"}, [(3, 6), (4, 8)]),
        ("dualpipe", {"chunks": "4,6"}, [(2, 4), (2, 6)]),
        ("dualpipe", {"world_size": 3, "chunks": 3}, [(3, 3)]),  # to be refused
    ],
)
def test_a_shape_that_is_not_asked_for_is_one_that_the_schedule_accepts(
    target: str, asked: dict[str, object], found: list[tuple[int, int]]
) -> None:
    options = check_options(**asked)  # type: ignore[arg-type]
    assert shapes(session.prepare(target, "check", options), options) == found


def test_a_plan_in_a_file_has_the_shape_that_it_has(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text(build_plan("zbv", 2, 2).to_csv())
    mutation = campaign(str(file), cases=15)
    assert mutation.ok
    assert all("world=2 chunks=2" in tried.case for tried in mutation.tried)


def test_what_is_kept_beyond_the_promise_is_found_though_it_means_the_same() -> None:
    plan, policy = build_plan("dualpipe", 2, 4), get_policy("batched")
    original = meaning_of(lower(plan, policy), policy)
    over = [
        mutant.name
        for mutant in plan_mutants(plan, policy)
        for meaning in [meaning_of(mutant.plan, policy)]
        if meaning.same(original) and max(meaning.peaks) > 3
    ]
    assert over
    (finding,) = harness.replay(f"dualpipe world=2 chunks=4 mutant={over[0]}").findings
    assert finding.code == "memory-bound"


def test_every_operator_on_calls_is_caught_as_something_of_its_kind() -> None:
    mutation = campaign("gpipe", world_size=3, chunks=2, cases=150)
    found = {
        operator: {t.codes[0] for t in mutation.of("caught") if t.operator == operator}
        for operator in OPERATORS
    }
    assert found["wrong-size"] == {"shape-mismatch"}
    assert found["wrong-dtype"] == {"dtype-mismatch"}
    assert found["reuse-buffer"] == {"buffer-overwrite", "early-read"}
    assert found["wrong-tag"] == {"deadlock"}
    assert found["zero-message"] == found["skip-scale"] == {"gradient-mismatch"}
    assert sum(map(bool, found.values())) >= len(OPERATORS) - 2  # some may not be drawn


def test_a_mutant_replays_from_its_line() -> None:
    line = "1f1b world=2 chunks=2 mutant=wrong-size@1.0"
    (finding,) = harness.replay(line).findings
    assert finding.code == "shape-mismatch"
    assert "mutant=wrong-size@1.0" in finding.case
    assert harness.replay("1f1b world=2 chunks=2").ok


@pytest.mark.parametrize(
    ("mutant", "said"),
    [
        ("nonsense@0.0", "the operators are drop, "),
        ("swap@5.0", "the ranks are 0 to 1"),
        ("swap@0.999", "has none such in this shape"),
        ("wrong-peer@0.0", "there is no other peer"),
    ],
)
def test_a_mutant_that_cannot_be_is_refused(mutant: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        harness.replay(f"1f1b world=2 chunks=2 mutant={mutant}")


def test_a_call_that_is_not_made_cannot_be_damaged() -> None:
    with pytest.raises(UsageError, match="rank 0 does not do that many"):
        harness.replay("1f1b world=2 chunks=2 mutant=drop-call@0.999")


def tried(
    *codes: str, same: bool | None, gradient: bytes = b"1", refused: str | None = None
) -> str:
    case = Case("1f1b", 1, chunks=1, mutant="swap@0.0")
    found = tuple(Finding(code, "", "") for code in codes)
    mine, right = (StepResult(0, (StageResult(0, 0, 0, initial=g),)) for g in (gradient, b"1"))
    outcome = Outcome(Trace(1), [RankOutcome(0, result=mine)], "finished", 0.0)
    result = CaseResult(case, found, refused=refused)
    return judged(Mutant(case, "", same), result, outcome, (right,)).verdict


def test_the_verdicts() -> None:
    assert tried("deadlock", same=False) == tried("deadlock", same=None) == "caught"
    assert tried("deadlock", same=True) == "alarm"
    assert tried(same=True) == "equivalent"
    assert tried(same=False) == "missed"
    assert tried(same=None) == "equivalent"
    assert tried(same=None, gradient=b"2") == "missed"
    assert tried(same=False, refused="no such shape") == "caught"


def test_a_schedule_with_findings_of_its_own_is_refused() -> None:
    target = f"{COURSE / 'blocking_sends.py'}:step"
    with pytest.raises(UsageError, match=r"has findings of its own \(deadlock: "):
        campaign(target)


def test_a_shape_that_the_target_refuses_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "fussy.py"
    file.write_text("def step(stage, comms, batch, chunks):\n    raise ValueError('odd chunks')\n")
    with pytest.raises(UsageError, match="refuses the shape"):
        campaign(f"{file}:step", cases=1)


def test_the_command_tells_what_was_caught(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "mutants.json"
    assert main(["mutate", "gpipe", "--cases", "8", "--format", "json", "-o", str(file)]) == 0
    document = json.loads(file.read_text())
    assert document["counts"]["caught"] + document["counts"]["equivalent"] == 8
    assert main(["mutate", "gpipe", "--cases", "8"]) == 0
    assert "0 missed, 0 false alarms" in capsys.readouterr().out


def test_the_command_fails_when_one_is_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def blind(*_: object) -> Mutation:
        found = campaign("gpipe", cases=1)
        (one,) = found.tried
        missed = type(one)(one.operator, one.rank, one.text, "missed", (), one.case)
        return Mutation("gpipe", "sim", [missed])

    monkeypatch.setattr("harness.mutate.campaign.mutate", blind)
    assert main(["mutate", "gpipe", "--cases", "1"]) == 1
    assert "harness replay 'gpipe world=3" in capsys.readouterr().out
