"""Campaigns on real ranks: the course's faults are found, shrunk and confirmed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.case import Case
from harness.findings import Finding, Report
from harness.fuzz import Limits, RefusedError, campaign, execute, run_case
from harness.targets import Target, TargetError, pickled_build_stage
from harness.worlds.backends import BACKENDS
from harness.worlds.processes import ProcessWorld
from tests.fuzz import course_steps

pytestmark = pytest.mark.gloo
FILE = str(Path(__file__).with_name("course_steps.py"))
TIMEOUT = 30.0


@pytest.fixture(scope="module")
def gloo() -> Iterator[ProcessWorld]:
    with ProcessWorld(BACKENDS["gloo"]) as world:
        yield world


def step(name: str) -> Target:
    return Target(f"{FILE}:{name}", "step", path=FILE, function=name)


def line_of(text: str) -> int:
    lines = Path(FILE).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def found(report: Report) -> Finding:
    (finding,) = report.findings
    assert finding.confirmed_on == ("gloo",)
    return finding


def test_built_in_schedules_are_bitwise_right(gloo: ProcessWorld) -> None:
    for name in ("naive", "gpipe", "1f1b"):
        report = campaign(Target(name, "schedule"), Limits(cases=5), gloo)
        assert report.findings == []
        assert report.tried["bitwise"] == report.tried["compared"] == 5


def test_a_right_step_is_clean_and_its_refusals_are_counted(gloo: ProcessWorld) -> None:
    report = campaign(step("right"), Limits(cases=9), gloo)
    assert report.findings == []
    assert report.cases.refused > 0
    assert report.cases.refused + report.cases.clean == report.cases.run == 9
    assert "3 chunks" in " ".join(report.refusals)


def test_blocking_sends_in_1f1b_shrink_to_two_ranks_and_two_chunks(gloo: ProcessWorld) -> None:
    finding = found(campaign(step("blocking_sends"), Limits(cases=3), gloo))
    case = Case.parse(finding.case)
    assert finding.code == "deadlock"
    assert (case.world, case.batch, case.layers, case.steps) == (2, case.chunks, 2, 1)
    assert case.chunks is not None
    assert case.chunks <= 2
    assert line_of("comms.send_forward(y)") in {op.line for op in finding.operations}


def test_a_loss_not_divided_by_chunks_is_named_at_its_backward(gloo: ProcessWorld) -> None:
    finding = found(campaign(step("not_divided"), Limits(worlds=(2, 4), cases=2), gloo))
    assert (finding.code, finding.cause) == ("gradient-mismatch", "scale:2")
    assert finding.operations[0].line == line_of("if divide else y).backward()")


def test_a_received_tensor_without_grad_is_named_at_its_forward(gloo: ProcessWorld) -> None:
    finding = found(campaign(step("received_without_grad"), Limits(worlds=(2,), cases=2), gloo))
    assert (finding.code, finding.cause) == ("gradient-mismatch", "graph-cut:stage 0")
    assert finding.operations[0].line == line_of("stage(inputs, batch.targets)")


@pytest.mark.parametrize(
    ("build_stage", "code"),
    [
        (course_steps.whole_model_sliced, None),
        (course_steps.state_skipped_by_count, "init-mismatch"),
        (course_steps.remainder_lost, "layer-mismatch"),
    ],
)
def test_a_split_of_the_users_own_is_compared_with_the_monolith(
    build_stage: Callable[..., Any], code: str | None, gloo: ProcessWorld
) -> None:
    target = replace(step("right"), build_stage=pickled_build_stage(build_stage))
    case = Case(target.text, 3, chunks=2, batch=4, layers=16, width=8, seed=42)
    findings = run_case(target, case, gloo, TIMEOUT).findings
    assert [finding.code for finding in findings] == ([] if code is None else [code])
    if code == "layer-mismatch":
        assert (
            "16 of the model's 17 layers (rank 0: 5, rank 1: 5, rank 2: 6)" in findings[0].message
        )
    if code == "init-mismatch":
        assert findings[0].details["stage"] == 1


def test_one_refused_case_says_so(gloo: ProcessWorld) -> None:
    case = Case("t", 2, chunks=2, batch=3)
    with pytest.raises(RefusedError, match="3 samples do not divide into 2 chunks"):
        run_case(step("right"), case, gloo, TIMEOUT)


def test_a_target_that_refuses_everything_could_not_be_checked(gloo: ProcessWorld) -> None:
    report = campaign(step("always_refuses"), Limits(cases=3), gloo)
    assert report.exit_code == 2
    assert report.error is not None
    assert "not today" in report.error


def test_a_target_that_does_not_load_is_an_error_of_its_own(gloo: ProcessWorld) -> None:
    with pytest.raises(TargetError, match="no function 'no_such'"):
        campaign(step("no_such"), Limits(cases=1), gloo)


def test_delays_change_no_number(gloo: ProcessWorld) -> None:
    case = Case("1f1b", 3, chunks=4, batch=6, delay=3, steps=1)
    result = execute(Target("1f1b", "schedule"), case, gloo, TIMEOUT)
    assert result.findings == ()
    assert result.bitwise
