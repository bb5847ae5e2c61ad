"""A target that leaves all or much of the work undone: told as that, and where the target is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import harness
from harness.findings import Finding
from pipeline.actions import Action, Kind


def idle(stage: Any, comms: Any, batch: Any, chunks: int) -> None:
    """Does nothing at all."""


def forward_only(stage: Any, comms: Any, batch: Any, chunks: int) -> Any:
    """Takes the whole batch as one microbatch, and calls no backward."""
    x = batch.inputs if stage.is_first else comms.receive_forward(stage.input_shape(batch.size))
    if stage.is_last:
        return stage(x, batch.targets).detach()
    comms.send_forward(stage(x).detach())
    return None


def shortened(rank: int, world_size: int, chunks: int) -> Iterator[Action]:
    """Leaves the last microbatch out."""
    for kind in (Kind.F, Kind.B):
        for microbatch in range(chunks - 1):
            yield Action(rank, kind, microbatch)


def the_finding(target: Any) -> Finding:
    report = harness.check(target, world_size=2, chunks=2, cases=2, confirm=False)
    (finding,) = report.findings
    return finding


@pytest.mark.parametrize(
    ("step", "lacking", "told"),
    [(idle, "0,1", "microbatches 0 and 1 is"), (forward_only, "0", "microbatch 0 is")],
)
def test_a_step_without_any_backward_lacks_every_microbatch(
    step: Any, lacking: str, told: str
) -> None:
    finding = the_finding(step)
    assert (finding.code, finding.cause) == ("gradient-mismatch", f"missing-microbatch:{lacking}")
    assert f"nothing of {told} in it" in finding.message


def test_a_step_that_computes_nothing_is_named_by_its_own_line() -> None:
    operations = the_finding(idle).operations
    assert {(o.op, o.file, o.line, o.function) for o in operations} == {
        ("step", __file__, idle.__code__.co_firstlineno, "idle")
    }


def test_what_a_plan_leaves_out_is_told_at_the_plan() -> None:
    finding = the_finding(shortened)
    assert finding.code == "plan-invalid"
    assert {(o.action, o.state, o.line) for o in finding.operations} == {
        (f"{rank}{kind}1", "is missing", shortened.__code__.co_firstlineno)
        for rank in (0, 1)
        for kind in "FB"
    }
