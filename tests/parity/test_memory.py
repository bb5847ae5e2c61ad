"""Activations in flight against the schedule's promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.case import Case, UsageError
from harness.checkers.memory import check, check_bound, peak_in_flight
from harness.targets import Target
from harness.trace import Compute, Site, Trace
from harness.worlds import Outcome, RankOutcome
from tests.parity.threads_world import STEP, run

CASE = Case("1f1b", 3, chunks=6, batch=6, layers=3, width=4, steps=2)


def computes(text: str) -> list[Compute]:
    return [
        Compute(0, 0, kind, 0, place, place + 1, Site("mine.py", place + 1, "step"))
        for place, kind in enumerate(text)
    ]


@pytest.mark.parametrize(
    ("order", "peak", "line"),
    [("FBFB", 1, 1), ("FFBB", 2, 2), ("FFBFBB", 2, 2), ("FFBFFB", 3, 5), ("FFIIWFW", 2, 2)],
)
def test_the_peak_is_where_most_forwards_lack_their_backward(
    order: str, peak: int, line: int
) -> None:
    most, at = peak_in_flight(computes(order))
    assert most == peak
    assert at is not None
    assert at.site.line == line


def test_no_compute_is_no_peak() -> None:
    assert peak_in_flight([]) == (0, None)


@pytest.mark.parametrize("schedule", ["naive", "gpipe", "1f1b"])
def test_built_in_schedules_keep_their_promise(schedule: str) -> None:
    outcome = run(CASE, schedule)
    assert check(CASE, outcome, Target(schedule, "schedule")) == []


def test_gpipe_breaks_the_promise_of_1f1b() -> None:
    (finding,) = check(CASE, run(CASE, "gpipe"), Target("1f1b", "schedule"))
    assert (finding.code, finding.ranks) == ("memory-bound", (0, 1, 2))
    assert finding.details["rank 2"] == {"peak": 6, "bound": 1}


def test_other_targets_promise_nothing() -> None:
    assert check(CASE, run(CASE, "gpipe"), STEP) == []


def test_the_forward_that_goes_too_far_is_named() -> None:
    trace = Trace(1)
    trace.ranks[0].computes = computes("FFB")
    outcome = Outcome(trace, [RankOutcome(0)], "finished", 0.0)
    (finding,) = check_bound(CASE.with_(world=1), outcome, lambda rank, world, chunks: 1)
    assert (finding.operations[0].file, finding.operations[0].line) == ("mine.py", 2)


def target_of(tmp_path: Path, promise: str) -> Target:
    file = tmp_path / "mine.py"
    file.write_text(f"raise SystemExit\n\n\ndef step(): ...\n\n\n{promise}\n")
    return Target(f"{file}:step", "step", path=str(file), function="step")


def test_a_step_that_names_a_schedule_promises_its_bound(tmp_path: Path) -> None:
    outcome = run(CASE, "gpipe")
    (finding,) = check(CASE, outcome, target_of(tmp_path, 'step.promises = "1f1b"'))
    assert (finding.code, finding.ranks) == ("memory-bound", (0, 1, 2))
    assert "rank 2 has 6 where 1 is allowed" in finding.message


def test_a_promise_that_is_kept_and_one_of_another_function_are_silent(tmp_path: Path) -> None:
    outcome = run(CASE, "gpipe")
    for promise in ('step.promises = "gpipe"', 'other.promises = "1f1b"', ""):
        assert check(CASE, outcome, target_of(tmp_path, promise)) == []


def test_a_promise_of_no_schedule_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="promises 'mine': one of"):
        check(CASE, run(CASE, "gpipe"), target_of(tmp_path, 'step.promises = "mine"'))
