"""Faults in DualPipe's two directions are told of the direction, rank and line that they are in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

import harness
from harness.findings import Finding
from pipeline.shared_gradients import SharedGradients
from pipeline.stage import StageRunner


def the_finding(world: int, chunks: int) -> Finding:
    (finding,) = harness.check(
        "dualpipe", world_size=world, chunks=chunks, cases=1, confirm=False
    ).findings
    assert finding.code == "gradient-mismatch"
    return finding


def places(finding: Finding) -> list[tuple[int, str | None]]:
    return [(operation.rank, operation.action) for operation in finding.operations]


Begin = Callable[[StageRunner, int, Tensor | None], Any]


def changed(monkeypatch: pytest.MonkeyPatch, stage: int, by: Callable[[int], float]) -> None:
    """Change the gradient with which a stage's backward begins, by microbatch."""
    begin: Begin = StageRunner._begin

    def change(self: StageRunner, microbatch: int, gradient: Tensor | None) -> Any:
        x, y, gradient = begin(self, microbatch, gradient)
        if self.stage.number == stage:
            assert gradient is not None
            gradient = gradient * by(microbatch)
        return x, y, gradient

    monkeypatch.setattr(StageRunner, "_begin", change)


def test_a_direction_s_scaled_gradient_is_told_at_its_own_stage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stage 6 is the second direction's third, on rank 1; rank 2 has the same slice."""
    changed(monkeypatch, 6, lambda microbatch: 2.0)
    finding = the_finding(4, 8)
    assert finding.cause == "scale:2"
    assert places(finding) == [(1, "6B4")]
    assert finding.ranks == (0, 1, 2, 3)
    assert "it is 2 times the batch's (of the direction that ends on rank 0)" in finding.message
    assert "the gradients of stages 3 and 7 are right" in finding.help


@pytest.mark.parametrize(
    ("stage", "microbatch", "rank"), [(3, 3, 0), (1, 0, 1), (2, 2, 1), (0, 1, 0)]
)
def test_a_microbatch_that_is_lost_is_told_where_it_was(
    monkeypatch: pytest.MonkeyPatch, stage: int, microbatch: int, rank: int
) -> None:
    changed(monkeypatch, stage, lambda k: float(k != microbatch))
    finding = the_finding(2, 4)
    assert finding.cause == f"missing-microbatch:{microbatch}"
    ((at, action),) = places(finding)
    assert at == rank
    assert action in (f"{stage}B{microbatch}", f"{stage}W{microbatch}")


def test_a_fault_of_both_is_told_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    begin: Begin = StageRunner._begin

    def change(self: StageRunner, microbatch: int, gradient: Tensor | None) -> Any:
        x, y, gradient = begin(self, microbatch, gradient)
        return x, y, gradient * 3 if self.stage.is_last and gradient is not None else gradient

    monkeypatch.setattr(StageRunner, "_begin", change)
    finding = the_finding(2, 4)
    assert finding.cause == "scale:3"
    assert places(finding) == [(1, "1B0"), (0, "3B2")]


def summed_but(forgets: Callable[[int], bool]) -> Callable[[SharedGradients, Any], Any]:
    """Sum as usual, and leave the ranks that forget with their own part."""
    right = SharedGradients.sum

    def wrong(self: SharedGradients, loss: Tensor | None) -> Tensor | None:
        parameters = list(self._before)
        own = [p.grad for p in parameters]
        both = right(self, loss)
        if forgets(self._comms.rank):
            for parameter, gradient in zip(parameters, own, strict=True):
                parameter.grad = gradient
        return both

    return wrong


def test_gradients_that_are_not_summed_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharedGradients, "sum", summed_but(lambda rank: True))
    finding = the_finding(2, 4)
    assert finding.cause == "tied-not-summed"
    assert "rank 0 has not rank 1's part and rank 1 has not rank 0's part" in finding.message
    assert finding.help.startswith("sum each slice's gradients over the two ranks that hold it")


def test_so_is_a_rank_that_alone_forgets_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharedGradients, "sum", summed_but(lambda rank: rank == 1))
    finding = the_finding(2, 4)
    assert finding.cause == "tied-not-summed"
    assert finding.ranks == (1,)
    assert "not summed: rank 1 has not rank 0's part" in finding.message


def test_a_direction_that_does_nothing_backward_is_not_a_sum_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changed(monkeypatch, 3, lambda microbatch: 0.0)
    finding = the_finding(2, 4)
    assert finding.cause == "missing-microbatch:2,3"
    assert "nothing of microbatches 2 and 3 is in it" in finding.message
    assert places(finding) == [(0, "3B2")]
