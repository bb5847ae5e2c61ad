"""How a campaign goes on: one finding a root cause, confirmed, bounded, never silent."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Self

import pytest

from harness import fuzz
from harness.case import Case
from harness.execute import CaseResult
from harness.findings import Finding, Operation, Report
from harness.fuzz import Limits, Progress, campaign
from harness.roots import Root
from harness.targets import Target
from harness.worlds import WorldError

TARGET = Target("step.py:step", "step")
Verdict = Callable[[Case, bool], list[Finding]]


class NoWorld:
    """Only has a name: the cases of these tests run nothing."""

    name = "gloo"

    def run(self, *args: Any, **options: Any) -> Any:
        raise AssertionError("no case of these tests runs")

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def finding(code: str = "deadlock", line: int = 10, cause: str | None = None) -> Finding:
    where = (Operation(0, "recv", "step.py", line, "step", "blocked"),)
    return Finding(code, "a message", "do this", (0,), where, cause=cause)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Report]:
    """Run a campaign whose cases are decided by a function (case, fresh) → findings."""

    def run(verdict: Verdict, limits: Limits = Limits(), **options: Any) -> Report:  # noqa: B008
        def execute(
            target: Target, case: Case, world: object, timeout: float, *, fresh: bool = False
        ) -> CaseResult:
            return CaseResult(case, tuple(verdict(case, fresh)), compared=True, bitwise=True)

        monkeypatch.setattr(fuzz, "execute", execute)
        return campaign(TARGET, limits, NoWorld(), **options)

    return run


def test_a_clean_target_uses_all_its_cases(running: Callable[..., Report]) -> None:
    report = running(lambda case, fresh: [])
    assert report.ok
    assert (report.cases.run, report.cases.clean) == (40, 40)
    assert report.tried["world"] == [1, 2, 3, 4, 5, 6]
    assert report.tried["uneven_batches"] > 5
    assert report.tried["bitwise"] == 40


def test_one_root_cause_in_many_cases_is_one_shrunk_confirmed_finding(
    running: Callable[..., Report],
) -> None:
    report = running(lambda case, fresh: [finding()] if case.world > 1 else [])
    (found,) = report.findings
    smallest = Case.parse(found.case)
    assert (smallest.world, smallest.chunks, smallest.batch) == (2, 1, 1)
    assert found.confirmed_on == ("gloo",)
    assert report.cases.failing > 10
    assert report.cases.run == 40
    assert report.exit_code == 1


def test_what_one_step_alone_shows_stands_for_what_follows_in_the_next(
    running: Callable[..., Report],
) -> None:
    def verdict(case: Case, fresh: bool) -> list[Finding]:
        return [finding("orphan-wait", 7)] if case.steps == 1 else [finding(line=30)]

    (found,) = running(verdict).findings
    assert found.code == "orphan-wait"
    assert Case.parse(found.case).steps == 1


def test_what_needs_two_steps_is_told_beside_what_one_step_shows_as_well(
    running: Callable[..., Report],
) -> None:
    def verdict(case: Case, fresh: bool) -> list[Finding]:
        first = [finding("orphan-wait", 7)]
        return first if case.steps == 1 else [*first, finding("gradient-mismatch", 30)]

    codes = {found.code for found in running(verdict).findings}
    assert codes == {"orphan-wait", "gradient-mismatch"}


def test_what_only_real_ranks_show_is_shrunk_and_confirmed_on_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Simulated(NoWorld):
        name = "sim"

    simulated, real, asked = Simulated(), NoWorld(), set[tuple[str, str]]()

    def execute(
        target: Target, case: Case, world: NoWorld, timeout: float, *, fresh: bool = False
    ) -> CaseResult:
        asked.add((case.backend, world.name))
        found = (finding("rank-error"),) if case.backend == "gloo" and case.world > 1 else ()
        return CaseResult(case, found, compared=True)

    monkeypatch.setattr(fuzz, "execute", execute)
    (found,) = campaign(TARGET, Limits(), simulated, real=real).findings
    smallest = Case.parse(found.case)
    assert (smallest.backend, smallest.world, smallest.chunks) == ("gloo", 2, 1)
    assert found.confirmed_on == ("gloo",)
    assert asked == {("sim", "sim"), ("gloo", "gloo")}


def test_another_root_cause_is_found_behind_the_first(running: Callable[..., Report]) -> None:
    def verdict(case: Case, fresh: bool) -> list[Finding]:
        if (case.batch or 0) % (case.chunks or 1):
            return [finding("gradient-mismatch", 20, "unknown")]
        return [finding()] if case.world > 2 else []

    codes = [found.code for found in running(verdict).findings]
    assert sorted(codes) == ["deadlock", "gradient-mismatch"]


def test_a_shown_cause_is_not_lost_by_shrinking(running: Callable[..., Report]) -> None:
    def verdict(case: Case, fresh: bool) -> list[Finding]:
        shown = "scale:3" if (case.chunks or 0) > 2 else "unknown"
        return [finding("gradient-mismatch", 5, shown)] if (case.chunks or 0) > 1 else []

    (found,) = running(verdict, Limits(chunks=(3, 4, 5))).findings
    assert found.cause == "scale:3"
    assert Case.parse(found.case).chunks == 3


def test_shrinking_stays_within_the_worlds_and_chunks_asked_for(
    running: Callable[..., Report],
) -> None:
    limits = Limits(worlds=(4, 6), chunks=(5, 7))
    (found,) = running(lambda case, fresh: [finding()], limits).findings
    assert (Case.parse(found.case).world, Case.parse(found.case).chunks) == (4, 5)


def test_a_failure_that_never_comes_again_is_nondeterminism(running: Callable[..., Report]) -> None:
    (found,) = running(lambda case, fresh: [] if fresh else [finding()]).findings
    assert found.code == "nondeterminism"
    assert found.confirmed_on == ()
    assert found.details["code"] == "deadlock"
    assert "deadlock: a message" in found.message


def test_a_failure_that_comes_again_now_and_then_says_how_often(
    running: Callable[..., Report],
) -> None:
    turns = iter([False, True, False])
    (found,) = running(
        lambda case, fresh: [finding()] if not fresh or next(turns) else [], Limits(cases=1)
    ).findings
    assert found.code == "deadlock"
    assert found.details["repeated"] == "1 of 3 fresh runs"


def test_interrupted_campaigns_return_what_they_have(running: Callable[..., Report]) -> None:
    seen: list[Case] = []

    def verdict(case: Case, fresh: bool) -> list[Finding]:
        seen.append(case)
        if len(seen) > 4:
            raise KeyboardInterrupt
        return [finding()] if case.world > 1 else []

    report = running(verdict)
    assert report.interrupted
    (found,) = report.findings
    assert found.code == "deadlock"
    assert found.case


def test_time_that_runs_out_ends_it_between_cases_and_while_shrinking(
    running: Callable[..., Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    def monotonic() -> float:
        return now

    def verdict(case: Case, fresh: bool) -> list[Finding]:
        nonlocal now
        now += 1.0
        return [finding()] if case.world > 1 else []

    monkeypatch.setattr(time, "monotonic", monotonic)
    report = running(verdict, Limits(seconds=4.0))
    assert report.cases.run < 5
    assert report.findings
    assert not report.interrupted


def test_a_world_that_cannot_run_passes_through(running: Callable[..., Report]) -> None:
    def verdict(case: Case, fresh: bool) -> list[Finding]:
        raise WorldError("no GPU")

    with pytest.raises(WorldError, match="no GPU"):
        running(verdict)


def test_a_world_that_fails_once_costs_nothing(running: Callable[..., Report]) -> None:
    failed: list[Case] = []

    def verdict(case: Case, fresh: bool) -> list[Finding]:
        if case.world == 4 and not failed:
            failed.append(case)
            raise WorldError("the fork server was killed")
        return []

    report = running(verdict)
    assert failed
    assert report.ok
    assert report.cases.run == 40


def test_a_world_that_fails_for_good_leaves_what_was_found_so_far(
    running: Callable[..., Report],
) -> None:
    def verdict(case: Case, fresh: bool) -> list[Finding]:
        if case.world >= 5:
            raise WorldError("the fork server was killed")
        return [finding()] if case.world > 1 else []

    report = running(verdict)
    assert [found.code for found in report.findings] == ["deadlock"]
    assert report.error == f"the fork server was killed (after {report.cases.run} cases)"
    assert 0 < report.cases.run < 40
    assert report.exit_code == 1
    assert "stopped: the fork server was killed" in str(report)


def test_a_world_that_fails_for_good_after_clean_cases_is_no_clean_check(
    running: Callable[..., Report],
) -> None:
    def verdict(case: Case, fresh: bool) -> list[Finding]:
        if case.world >= 5:
            raise WorldError("the fork server was killed")
        return []

    report = running(verdict)
    assert report.cases.clean == report.cases.run > 0
    assert (report.outcome, report.exit_code) == ("error", 2)


def test_a_warning_that_does_not_come_again_is_dropped(running: Callable[..., Report]) -> None:
    warning = finding("buffer-overwrite").with_(severity="warning")
    report = running(lambda case, fresh: [] if fresh else [warning])
    assert report.findings == []
    assert report.ok


def test_a_warning_is_worth_a_handful_of_cases_only(running: Callable[..., Report]) -> None:
    asked: list[Case] = []

    def verdict(case: Case, fresh: bool) -> list[Finding]:
        asked.append(case)
        # Each case that is tried to make it smaller fails to show it.
        return [finding("unawaited-request").with_(severity="warning")] if case == asked[0] else []

    report = running(verdict, Limits(cases=1))
    assert len(report.findings) == 1
    assert len(asked) <= 10


def test_warnings_are_reported_and_do_not_fail_a_case(running: Callable[..., Report]) -> None:
    report = running(lambda case, fresh: [finding().with_(severity="warning")])
    assert report.ok
    assert len(report.findings) == 1
    assert report.cases.failing == 0


def test_progress_counts_up_to_the_cases_asked_for(running: Callable[..., Report]) -> None:
    told: list[Progress] = []
    running(lambda case, fresh: [], Limits(cases=5), progress=told.append)
    assert [progress.done for progress in told] == [0, 1, 2, 3, 4]
    assert {progress.of for progress in told} == {5}
    assert Case.parse(told[0].case)


def test_roots_are_told_apart_by_code_and_line_not_by_numbers() -> None:
    here, there = Root.of(finding(line=10)), Root.of(finding(line=11))
    assert here.same(Root.of(finding(line=10)))
    assert not here.same(there)
    assert not here.same(Root.of(finding("orphan-wait", 10)))
    here.merge(there)
    assert here.same(there)


def at(*lines: int, cause: str | None = None, code: str = "gradient-mismatch") -> Root:
    where = tuple(Operation(0, "recv", "step.py", line, "step", "blocked") for line in lines)
    return Root.of(Finding(code, "m", "h", (0,), where, cause=cause))


def test_a_helper_that_all_messages_go_through_makes_no_root_of_two() -> None:
    assert not at(5, 20).same(at(5, 30))
    assert at(5, 20).same(at(20))
    assert at(20).same(at(5, 20))


def test_a_root_does_not_grow_by_what_is_taken_for_it() -> None:
    root = at(5)
    root.merge(at(5, 20))
    assert root.same(at(5, 20))
    assert not root.same(at(20)), "of which only a larger set of lines is shown to be the same"


def test_two_causes_shown_at_one_line_are_two_roots() -> None:
    assert not at(5, cause="scale:2").same(at(5, cause="missing-microbatch:1"))
    assert at(5, cause="scale:2").same(at(5, cause="scale:4"))
    assert at(5, cause="scale:2").same(at(5, cause="unknown"))
    assert not at(5, cause="scale:2").same(at(5, cause="unknown"), strictly=True)


def test_two_gradient_faults_at_one_line_are_two_findings(running: Callable[..., Report]) -> None:
    def verdict(case: Case, fresh: bool) -> list[Finding]:
        uneven = (case.batch or 0) % (case.chunks or 1)
        cause = "missing-microbatch:0" if uneven else f"scale:{case.chunks}"
        return [finding("gradient-mismatch", 5, cause)]

    causes = sorted(str(found.cause) for found in running(verdict).findings)
    assert [cause.partition(":")[0] for cause in causes] == ["missing-microbatch", "scale"]


def test_a_root_without_a_line_is_told_by_its_code() -> None:
    nowhere = Root.of(Finding("gradient-mismatch", "m", "h", cause="unknown"))
    assert nowhere.same(Root.of(finding("gradient-mismatch")))
