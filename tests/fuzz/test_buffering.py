"""Whether a deadlock needs buffering: one bounded run more, and nothing of what was found lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness import session
from harness.buffering import LIMIT_S, explain_buffering
from harness.case import Case
from harness.findings import Finding, Operation
from harness.targets import Target
from harness.trace import Op, Site, Trace
from harness.worlds import Ending, Outcome, Program, RankOutcome, WorldError

PROGRAM = Program(entry=lambda context: None)
BLOCKED = (Operation(0, "send", "a.py", 1, "f", "blocked", peer=1),)
DEADLOCK = Finding("deadlock", "0 and 1 wait", "isend", (0, 1), BLOCKED, details={"why": "first"})


def ended(ending: Ending) -> Outcome:
    return Outcome(
        Trace(2), [RankOutcome(0, finished=True), RankOutcome(1, finished=True)], ending, 0
    )


def test_a_deadlock_that_finishes_with_buffered_sends_needs_them() -> None:
    asked: list[Program] = []

    def rerun(program: Program) -> Outcome:
        asked.append(program)
        return ended("finished")

    found = explain_buffering(DEADLOCK, PROGRAM, rerun)
    assert found.cause == "needs-buffering"
    assert [program.buffered_sends for program in asked] == [True]


@pytest.mark.parametrize(("line", "cause"), [(1, "missing-receive"), (99, "needs-buffering")])
def test_one_that_leaves_a_message_of_its_own_behind_lacks_its_receive(
    line: int, cause: str
) -> None:
    outcome = ended("finished")
    outcome.trace.ranks[0].ops[0] = Op(
        0, 0, "send", "isend", "world", Site("a.py", line, "f"), posted_ns=1, peer=1
    )
    found = explain_buffering(DEADLOCK, PROGRAM, lambda program: outcome)
    assert found.cause == cause
    if cause == "missing-receive":
        assert found.details["why"] == "rank 1 never receives what rank 0 sends at a.py:1"
        assert "rank 1" in found.help


@pytest.mark.parametrize("ending", ["stuck", "failed", "timeout"])
def test_one_that_does_not_finish_is_left_as_it_is(ending: Ending) -> None:
    assert explain_buffering(DEADLOCK, PROGRAM, lambda program: ended(ending)) == DEADLOCK


def test_tags_that_differ_are_not_the_cause_where_the_messages_meet_in_the_end() -> None:
    crossed = DEADLOCK.with_(cause="tag-mismatch", help="use one tag")
    found = explain_buffering(crossed, PROGRAM, lambda program: ended("finished"))
    assert found.cause == "needs-buffering"
    assert "tag" not in found.help
    assert "tag" not in found.details["why"]
    assert explain_buffering(crossed, PROGRAM, lambda program: ended("stuck")) == crossed


def test_a_world_that_fails_meanwhile_costs_the_cause_only() -> None:
    def rerun(program: Program) -> Outcome:
        raise WorldError("gone")

    assert explain_buffering(DEADLOCK, PROGRAM, rerun) == DEADLOCK


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a program whose first run ends in DEADLOCK; a second one does as it is told."""

    def start(kind: Any, again: Callable[[], Outcome]) -> Any:
        runs: list[dict[str, Any]] = []

        class World:
            name = "gloo"

            def run(self, program: Program, size: int, **options: Any) -> Outcome:
                runs.append(options | {"buffered": program.buffered_sends})
                return ended("stuck") if len(runs) == 1 else again()

        monkeypatch.setattr(session, "shared_world", lambda backend, isolated=False: World())
        monkeypatch.setattr("harness.judge.judge", lambda outcome, case: [DEADLOCK])
        case = Case("a.py", 2)
        return session.run_program(Target("a.py", kind), case, 60.0, False), runs

    return start


def test_a_function_is_run_once_more_for_a_few_seconds_at_most(run: Callable[..., Any]) -> None:
    report, runs = run("program", lambda: ended("finished"))
    assert [finding.cause for finding in report.findings] == ["needs-buffering"]
    assert runs[1]["buffered"]
    assert runs[1]["limit"] == runs[1]["timeout"] == LIMIT_S <= 5


def test_a_script_is_never_run_twice(run: Callable[..., Any]) -> None:
    report, runs = run("script", lambda: ended("finished"))
    assert len(runs) == 1
    assert [finding.cause for finding in report.findings] == [None]


def test_ctrl_c_in_the_second_run_keeps_what_the_first_has_found(run: Callable[..., Any]) -> None:
    def interrupt() -> Outcome:
        raise KeyboardInterrupt

    for again in (interrupt, lambda: ended("interrupted")):
        report, runs = run("program", again)
        assert len(runs) == 2
        assert [finding.code for finding in report.findings] == ["deadlock"]
        assert report.interrupted
        assert report.cases.run == report.cases.failing == 1
        assert report.exit_code == 1
