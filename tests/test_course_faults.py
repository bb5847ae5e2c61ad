"""Each fault of the course is found, by its right name, on the right rank, at the right line."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
from harness.findings import Finding, Report

COURSE = Path(__file__).parent / "programs" / "course"


def line_of(file: str, text: str) -> int:
    """Return the number of the one line of a program that contains ``text``."""
    lines = (COURSE / file).read_text().splitlines()
    [number] = [number for number, line in enumerate(lines, 1) if text in line]
    return number


def check(file: str, **options: object) -> Report:
    """Check a program, by gloo's semantics: under NCCL's all of the course's 1F1B is a hazard."""
    asked = {"cases": 10, "timeout": 30, "semantics": "gloo"} | options
    return harness.check(f"{COURSE / file}:step", **asked)  # type: ignore[arg-type]


def only(report: Report) -> Finding:
    """Return the report's one finding that is an error."""
    errors = [finding for finding in report.findings if finding.severity == "error"]
    assert len(errors) == 1, str(report)
    return errors[0]


def places(finding: Finding) -> set[tuple[int, int]]:
    """Return (rank, line) of each operation."""
    return {(operation.rank, operation.line) for operation in finding.operations}


@pytest.mark.gloo
@pytest.mark.parametrize("file", ["right_1f1b.py", "right_gpipe.py"])
def test_the_correct_twins_are_clean(file: str) -> None:
    report = check(file)
    assert report.ok, str(report)
    assert report.findings == []


def test_the_courses_own_1f1b_is_a_hazard_under_nccl_and_gpipe_is_none() -> None:
    hazard = only(check("right_1f1b.py", semantics=None, confirm=False))
    assert (hazard.code, hazard.cause) == ("nccl-hazard", "needs-capacity")
    assert "semantics=nccl-" in hazard.case
    again = only(harness.replay(hazard.case))
    assert (again.code, again.cause, places(again)) == (hazard.code, hazard.cause, places(hazard))
    assert check("right_gpipe.py", semantics=None, confirm=False).findings == []


@pytest.mark.gloo
def test_blocking_sends_deadlock_in_the_smallest_world_that_shows_it() -> None:
    finding = only(check("blocking_sends.py"))
    assert (finding.code, finding.cause) == ("deadlock", "needs-buffering")
    assert "world=2 chunks=2" in finding.case
    send = line_of("blocking_sends.py", "comms.send_forward(y)")
    gradient = line_of("blocking_sends.py", "comms.send_backward(")
    assert places(finding) == {(0, send), (1, gradient)}
    assert finding.confirmed_on == ("sim", "gloo")
    again = only(harness.replay(finding.case))
    assert (again.code, again.cause, places(again)) == ("deadlock", finding.cause, places(finding))


@pytest.mark.gloo
def test_a_dropped_isend_handle_is_named_where_it_is_dropped() -> None:
    finding = only(check("dropped_handle.py"))
    assert finding.code == "dropped-request"
    assert {line for _, line in places(finding)} == {
        line_of("dropped_handle.py", "comms.isend_forward(y)")
    }


@pytest.mark.gloo
def test_a_loss_not_divided_by_chunks_is_a_scale_of_chunks() -> None:
    finding = only(check("undivided_loss.py"))
    assert (finding.code, finding.cause) == ("gradient-mismatch", "scale:2")
    assert "chunks=2" in finding.case
    assert line_of("undivided_loss.py", "y.backward()") in {n for _, n in places(finding)}


@pytest.mark.gloo
def test_random_state_skipped_by_count_gives_other_parameters() -> None:
    finding = only(check("skipped_by_count.py"))
    assert finding.code == "init-mismatch"
    assert finding.ranks == (1,)
    assert "world=2" in finding.case
    assert places(finding) == {(1, line_of("skipped_by_count.py", "def build_stage"))}


@pytest.mark.gloo
def test_layers_lost_by_the_split_are_counted() -> None:
    finding = only(harness.check(f"{COURSE / 'layers_lost.py'}:step", cases=20, world_size=3))
    assert finding.code == "layer-mismatch"
    assert "world=3" in finding.case
    assert sum(finding.details["held"]) < finding.details["layers"]
    assert {line for _, line in places(finding)} == {line_of("layers_lost.py", "def build_stage")}


@pytest.mark.gloo
def test_a_receive_buffer_of_the_whole_batch_is_a_shape_mismatch_on_both_sides() -> None:
    finding = only(check("whole_batch_buffer.py"))
    assert finding.code == "shape-mismatch"
    assert places(finding) == {
        (0, line_of("whole_batch_buffer.py", "comms.send_forward(y)")),
        (1, line_of("whole_batch_buffer.py", "comms.receive_forward(")),
    }


@pytest.mark.gloo
def test_a_float_size_is_an_invalid_argument() -> None:
    finding = only(check("float_division.py"))
    assert finding.code == "invalid-argument"
    assert "//" in finding.message
    lines = {line for _, line in places(finding)}
    assert line_of("float_division.py", "comms.receive_forward(") in lines


@pytest.mark.gloo
def test_a_received_tensor_without_requires_grad_cuts_the_graph() -> None:
    finding = only(check("no_requires_grad.py"))
    assert (finding.code, finding.cause) == ("gradient-mismatch", "graph-cut:stage 0")
    assert places(finding) == {(1, line_of("no_requires_grad.py", "y = stage(x, targets"))}


@pytest.mark.gloo
def test_an_unclamped_warmup_raises_on_the_first_rank() -> None:
    finding = only(check("unclamped_warmup.py"))
    assert finding.code == "rank-error"
    assert finding.ranks == (0,)
    assert "IndexError" in finding.message


@pytest.mark.gloo
def test_a_barrier_on_one_rank_waits_for_the_others_for_ever() -> None:
    finding = only(harness.run(f"{COURSE / 'lone_barrier.py'}:main", 4))
    assert finding.code == "orphan-wait"
    assert places(finding) == {(1, line_of("lone_barrier.py", "dist.barrier()"))}
    assert finding.details["counts"] == {"0": 0, "1": 1, "2": 0, "3": 0}
