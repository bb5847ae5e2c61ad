"""What a finding about numbers says beside its code: where it began, how, and what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.checkers.parity import explain_none_gradient
from harness.trace import Frame
from tests.parity import planted_steps as planted
from tests.parity.cases import case_of, only
from tests.parity.threads_world import run


def test_only_the_rank_where_it_began_is_pointed_at() -> None:
    finding = only(case_of(), planted.not_divided())
    assert finding.ranks == (0, 1, 2)
    assert [op.rank for op in finding.operations] == [2]


def test_a_rank_above_whose_gradient_is_right_is_told() -> None:
    doubled = planted.Plant(outgoing=lambda gradient: 2 * gradient)
    finding = only(case_of(world=3), doubled)
    assert "rank 2's own gradient is right" in finding.help
    assert "own gradient is right" not in only(case_of(), planted.not_divided()).help


def test_the_first_parameter_that_differs_is_named_in_the_message() -> None:
    assert "first in stage 0 units.0.0.weight" in only(case_of(), planted.not_divided()).message


def test_an_output_saved_without_its_graph_is_told_on_its_own_rank() -> None:
    def detached(stage: Any, comms: Any, batch: Any, chunks: int) -> Any:
        if not stage.is_first:
            return planted.right()(stage, comms, batch, chunks)

        leaf: Any = lambda x: stage(x).detach().requires_grad_()  # noqa: E731
        leaf.is_first, leaf.is_last, leaf.parameters = True, False, stage.parameters
        return planted.right()(leaf, comms, batch, chunks)

    finding = only(case_of(world=2), detached)
    assert finding.cause == "graph-cut:stage 0"
    assert [(op.rank, op.op) for op in finding.operations] == [(0, "forward")]


def test_a_combination_without_a_name_is_told_by_its_coefficients() -> None:
    def halve(stage: Any, position: int, chunks: int) -> None:
        for parameter in stage.parameters():
            parameter.grad /= 2

    finding = only(case_of(chunks=2), planted.Plant(after=halve))
    assert finding.cause == "unknown"
    assert "times 0.25, 0.5, and not 1 each" in finding.message


def test_a_loss_of_precision_on_the_way_is_told_as_one() -> None:
    single = planted.Plant(received=lambda x: x.float().to(x.dtype).requires_grad_())
    finding = only(case_of(), single)
    assert finding.cause == "unknown"
    assert "rounding to float32" in finding.message
    slightly = planted.Plant(weight=lambda size, batch, chunks: (1 + 1e-4) * size / batch)
    assert "float32" not in only(case_of(), slightly).message


@pytest.mark.parametrize(
    ("weight", "told"),
    [
        (lambda size, batch, chunks: 1.0, "divide each microbatch's mean loss by chunks"),
        (lambda size, batch, chunks: size / batch / chunks, "divide by chunks once only"),
        (lambda size, batch, chunks: float(size), "a sum over the samples"),
        (lambda size, batch, chunks: 3 * size / batch, "3 times the batch's"),
    ],
)
def test_a_factor_is_told_by_what_it_is(weight: Any, told: str) -> None:
    assert told in only(case_of(chunks=4, batch=8), planted.Plant(weight=weight)).help


def test_a_gradient_sent_before_its_backward_is_told_as_that() -> None:
    def early(stage: Any, comms: Any, batch: Any, chunks: int) -> None:
        if stage.is_first:
            comms.send_forward(stage(batch.inputs))
            return
        x = comms.receive_forward(stage.input_shape(batch.size)).requires_grad_()
        loss = stage(x, batch.targets)
        comms.send_backward(x.grad)
        loss.backward()

    outcome = run(case_of(world=2), early)
    error = outcome.ranks[1].error
    assert error is not None
    outcome.ranks[1].error = replace(error, frames=(Frame(__file__, 1, "early"),))
    finding = explain_none_gradient(outcome)
    assert finding is not None
    assert (finding.code, finding.ranks) == ("invalid-argument", (1,))
    assert "before the backward that makes it" in finding.message
    assert finding.operations[0].file == __file__


def test_an_unknown_gradient_is_told_with_what_the_loss_says_of_the_forward() -> None:
    def halved(stage: Any, comms: Any, batch: Any, chunks: int) -> Any:
        send = comms.send_forward
        comms.send_forward = lambda y: send(y / 2)
        try:
            return planted.right()(stage, comms, batch, chunks)
        finally:
            comms.send_forward = send

    finding = only(case_of(world=2), halved)
    assert finding.cause == "unknown"
    assert "the loss is wrong as well" in finding.help

    def spoilt(stage: Any, comms: Any, batch: Any, chunks: int) -> Any:
        def spoil(stage: Any, position: int, chunks: int) -> None:
            next(iter(stage.parameters())).grad[0].zero_()

        return planted.Plant(after=spoil if stage.is_last else lambda *_: None)(
            stage, comms, batch, chunks
        )

    finding = only(case_of(world=2), spoilt)
    assert (finding.cause, finding.ranks) == ("unknown", (1,))
    assert "the loss is right" in finding.help


def test_a_rank_within_a_loose_bound_is_not_called_right() -> None:
    shapes = {"layers": 8, "width": 5}
    case = case_of(2, 4, 28, "bfloat16", "seed", steps=1).with_(seed=743, **shapes)
    finding = only(case, planted.not_divided())
    assert finding.ranks == (0,), "on rank 1 four times the gradient is within the bound"
    assert [op.rank for op in finding.operations] == [0, 1]
    assert "is right" not in finding.help
