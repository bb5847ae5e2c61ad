"""Shapes that the target refuses, told from errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness.case import Case
from harness.parity.refusal import is_refusal, settle
from harness.parity.results import StepResult
from harness.trace import Status
from pipeline.actions import Action
from pipeline.model import Batch, chunk_sizes
from pipeline.plan import PlanError, build_plan, validate
from tests.parity.threads_world import run

CASE = Case("step.py:step", 2, chunks=2, batch=3, layers=2, width=4)


def caught(function: Any, *args: Any) -> ValueError:
    with pytest.raises(ValueError) as info:  # noqa: PT011
        function(*args)
    return info.value


def refuse(stage: Any, comms: Any, batch: Any, chunks: int) -> None:
    raise ValueError(f"batch {batch.size} is odd")


def refuse_on_one_rank(stage: Any, comms: Any, batch: Any, chunks: int) -> None:
    if stage.is_first:
        raise ValueError("batch is odd")


def test_the_targets_own_valueerror_is_a_refusal() -> None:
    assert is_refusal(caught(refuse, None, None, Batch(3, None, None), 2))


def no_such_element(chunks: int) -> int:
    return [1, 2].index(chunks)


def unpacks(values: Any) -> Any:
    a, b = values
    return a, b


def raises_inside(chunks: int) -> None:
    try:
        with torch.no_grad():
            if chunks:
                raise ValueError("no chunks, please")
    finally:
        chunks += 1


def raises_in_place_of(chunks: int) -> None:
    try:
        no_such_element(chunks)
    except ValueError:
        raise ValueError(f"{chunks} chunks cannot be") from None


@pytest.mark.parametrize("function", [raises_inside, raises_in_place_of])
def test_a_raise_statement_is_a_refusal_wherever_it_stands(function: Any) -> None:
    assert is_refusal(caught(function, 3))


@pytest.mark.parametrize(
    ("function", "given"), [(no_such_element, 3), (unpacks, [1, 2, 3]), (unpacks, [1]), (int, "x")]
)
def test_a_valueerror_of_a_builtin_is_an_error_of_the_target(function: Any, given: Any) -> None:
    assert not is_refusal(caught(lambda: function(given)))


def test_the_models_checks_of_shapes_are_refusals() -> None:
    assert is_refusal(caught(chunk_sizes, 2, 3))


def test_a_valueerror_of_torch_is_none() -> None:
    assert not is_refusal(
        caught(torch.nn.functional.cross_entropy, torch.ones(3, 2), torch.ones(2))
    )


def test_an_invalid_plan_is_no_refusal() -> None:
    plan = build_plan(lambda rank, world, chunks: [Action.parse("0F0")], 1, 1)
    assert isinstance(error := caught(validate, plan), PlanError)
    assert not is_refusal(error)


def test_a_shape_that_every_rank_refuses_is_refused() -> None:
    assert settle(run(CASE, refuse)) == "batch 3 is odd"


def test_a_refusal_by_some_ranks_only_is_their_error() -> None:
    outcome = run(CASE, refuse_on_one_rank)
    assert settle(outcome) is None
    error = outcome.ranks[0].error
    assert error is not None
    assert (error.type, error.message) == ("ValueError", "batch is odd")
    assert error.frames[-1].function == "refuse_on_one_rank"
    assert outcome.trace.ranks[0].status is Status.RAISED
    assert isinstance(outcome.ranks[1].result, StepResult)
