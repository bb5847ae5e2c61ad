"""A message that another one's receive took is found on real ranks, and nothing beside it."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import harness
from harness.worlds import World
from tests.programs import message_swaps
from tests.worlds.running import run, the_finding

pytestmark = pytest.mark.gloo
FILE = str(Path(inspect.getfile(message_swaps)))


def line(comment: str) -> int:
    lines = Path(FILE).read_text().splitlines()
    (found,) = [at for at, text in enumerate(lines, 1) if text.endswith(f"# {comment}")]
    return found


@pytest.mark.parametrize("policy", ["async", "isend", "blocking"])
def test_a_plan_whose_sends_are_swapped_is_one_finding_at_both_its_lines(policy: str) -> None:
    report = harness.check(
        f"{FILE}:plan", world_size=2, chunks=3, cases=2, seed=1, policy=policy, timeout=30
    )
    (finding,) = report.findings
    assert finding.code == "message-swap", str(report)
    assert finding.ranks == (0, 1)
    assert [(op.rank, op.line, op.function) for op in finding.operations] == [
        (0, line("sent"), "_gpipe"),
        (1, line("taken"), "_gpipe"),
    ]
    assert finding.details["what"] == "microbatch"
    assert finding.confirmed_on == ("sim", "gloo")
    again = harness.replay(finding.case)
    assert [f.code for f in again.findings] == ["message-swap"]


@pytest.mark.parametrize("function", ["right_plan", "step"])
def test_any_order_that_both_sides_keep_is_right(function: str) -> None:
    report = harness.check(f"{FILE}:{function}", world_size="2,3", cases=6, timeout=30)
    assert report.findings == [], str(report)
    assert report.cases.clean == 6


def test_a_gradient_received_as_an_activation_is_told(gloo: World) -> None:
    finding = the_finding(run(gloo, message_swaps.gradient_as_activation))
    assert (finding.code, finding.details["what"]) == ("message-swap", "direction")
    assert {(op.rank, op.file, op.line) for op in finding.operations} == {
        (0, FILE, line("the activation")),
        (1, FILE, line("the gradient")),
    }
