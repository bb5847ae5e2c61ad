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
