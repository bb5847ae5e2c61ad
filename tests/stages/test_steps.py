"""Steps whose ranks hold several stages, checked in the simulated world and on real ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
from harness.findings import Finding, Report

STEPS = Path(__file__).with_name("steps.py")


def check(step: str, **options: object) -> Report:
    settings = {"world_size": (2, 3), "chunks": (2, 3), "cases": 8, "confirm": False} | options
    return harness.check(f"{STEPS}:{step}", **settings)  # type: ignore[arg-type]


def the_finding(step: str, **options: object) -> Finding:
    (finding,) = check(step, **options).findings
    return finding


@pytest.mark.parametrize("step", ["looped", "in_a_v", "three_each"])
def test_a_right_step_has_no_finding(step: str) -> None:
    report = check(step, strict=True)
    assert report.findings == []
    assert report.cases.clean == report.cases.run == 8
    assert report.tried["bitwise"] == 8


def test_a_right_step_has_none_on_real_ranks() -> None:
    report = check("in_a_v", backend="gloo", world_size=2, chunks=2, cases=1)
    assert (report.findings, report.cases.clean) == ([], 1)


def test_a_scaled_gradient_is_told_at_the_stage_where_it_begins() -> None:
    finding = the_finding("not_divided", world_size=2, chunks=2)
    assert (finding.code, finding.cause) == ("gradient-mismatch", "scale:2")
    assert finding.ranks == (0, 1)
    (operation,) = finding.operations
    assert (operation.rank, operation.action) == (1, "3B0")
    assert operation.file.endswith("steps.py")


def test_targets_of_other_microbatches_are_told() -> None:
    assert the_finding("other_targets", chunks=3).cause == "permuted-targets"


def test_a_gradient_of_another_stage_is_told_where_the_calls_name_their_stages() -> None:
    finding = the_finding("one_rank_climbs", world_size=3, chunks=(1, 2))
    assert (finding.code, finding.ranks) == ("message-swap", (0, 1, 2))
    assert "the gradient for stage 4 is used on stage 1" in finding.message


def test_an_activation_that_takes_no_gradient_is_told_with_its_stage() -> None:
    finding = the_finding("no_gradient_wanted", world_size=2, chunks=2)
    assert finding.code == "gradient-mismatch"
    assert finding.cause == "graph-cut:stage 2"
    assert finding.ranks == (1,)


def test_so_is_one_that_is_handed_over_on_its_own_rank() -> None:
    """In a V of one rank nothing is sent: the backward has nothing to begin with."""
    finding = the_finding("no_gradient_wanted_in_a_v", world_size=1, chunks=2)
    assert (finding.code, finding.cause) == ("gradient-mismatch", "graph-cut:stage 0")
    assert "the activation that stage 1 received does not require grad" in finding.message
    assert finding.operations[0].action == "1F0"


def test_a_rank_with_two_stages_has_to_say_which() -> None:
    finding = the_finding("stage_not_said", world_size=2, chunks=2)
    assert finding.code == "invalid-argument"
    assert "say which one's it is, as in stage=" in finding.message


def test_findings_of_a_world_of_one_rank_name_its_stages() -> None:
    finding = the_finding("not_divided", world_size=1, chunks=2)
    assert finding.cause == "scale:2"
    assert finding.details["stage"] == 0
    ((rank, action),) = [(operation.rank, operation.action) for operation in finding.operations]
    assert (rank, action) == (0, "1B0")
