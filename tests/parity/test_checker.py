"""Planted faults in the numbers: each is named, at its line, and its correct twin is silent."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.checkers.parity import check, examine, explain_none_gradient
from harness.execute import verdict_on
from harness.parity.program import Step
from harness.parity.reference import Columns, Reference
from harness.targets import Target
from tests.parity import planted_steps as planted
from tests.parity.cases import case_of, only
from tests.parity.threads_world import STEP, results, run

WORKLOADS = ("conditioned", "seed")
OPTIMIZERS = ("sgd", "adam")


FAULTS: dict[str, tuple[Callable[[], Step], str, str | None]] = {
    "loss not divided by chunks": (planted.not_divided, "gradient-mismatch", "scale:4"),
    "one percent too much": (lambda: planted.scaled(1.01), "gradient-mismatch", "scale:1.01"),
    "a microbatch dropped": (
        lambda: planted.in_order(lambda chunks: [0, 2, 3]),
        "gradient-mismatch",
        "missing-microbatch:1",
    ),
    "a microbatch twice": (
        lambda: planted.in_order(lambda chunks: [0, 1, 2, 3, 2]),
        "gradient-mismatch",
        "duplicate-microbatch:2",
    ),
    "targets reversed": (planted.targets_reversed, "gradient-mismatch", "permuted-targets"),
    "targets shuffled": (planted.targets_shuffled_inside, "gradient-mismatch", "permuted-targets"),
    "received without grad": (
        planted.no_gradient_of_received,
        "gradient-mismatch",
        "graph-cut:stage 1",
    ),
    "zeroed between": (planted.zeroed_between, "gradient-mismatch", "missing-microbatch:0,1,2"),
    "kept from earlier": (planted.kept_from_earlier, "gradient-mismatch", "stale-accumulation"),
    "only the loss": (planted.loss_only_scaled, "loss-mismatch", None),
    "update inside": (planted.update_inside, "parameter-mismatch", None),
}


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_one_finding_with_its_cause(
    fault: str, optimizer: str, workload: str
) -> None:
    make, code, cause = FAULTS[fault]
    finding = only(case_of(workload=workload, optimizer=optimizer), make())
    assert (finding.code, finding.cause) == (code, cause)
    assert finding.operations, "it names a line"
    assert {op.file for op in finding.operations} == {planted.__file__}


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize(
    ("make", "rank"),
    [(planted.inputs_of_the_first_step, 0), (planted.targets_of_the_first_step, 1)],
)
def test_data_of_an_earlier_step_are_told_where_they_went_in(
    make: Callable[[], Step], rank: int, dtype: str
) -> None:
    finding = only(case_of(world=2, dtype=dtype), make())
    assert (finding.code, finding.cause) == ("gradient-mismatch", "stale-batch")
    assert [(op.rank, op.op) for op in finding.operations] == [(rank, "forward")]
    assert finding.details["step"] == 1
    assert "are those of step 0" in finding.message


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("batch", [8, 10, 4])
def test_a_right_step_is_silent_in_every_order_of_backwards(
    batch: int, dtype: str, workload: str
) -> None:
    orders: list[Callable[[int], list[int]]] = [
        lambda chunks: list(range(chunks)),
        lambda chunks: list(reversed(range(chunks))),
        lambda chunks: [2, 0, 3, 1],
    ]
    for order in orders:
        case = case_of(batch=batch, dtype=dtype, workload=workload)
        assert check(case, run(case, planted.in_order(order)), STEP) == []


@pytest.mark.parametrize("schedule", ["naive", "gpipe", "1f1b"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 7), (4, 2, 5), (3, 8, 8)])
def test_built_in_schedules_are_bitwise_the_monolith(
    schedule: str, shape: tuple[int, int, int]
) -> None:
    world, chunks, batch = shape
    for dtype in ("float64", "float32", "bfloat16"):
        case = case_of(world, chunks, batch, dtype, optimizer="adam", steps=3)
        found, verdict = examine(case, run(case, schedule), Target(schedule, "schedule"))
        assert found == []
        assert verdict is not None
        assert verdict.bitwise
        assert verdict.losses == 3


def test_a_built_in_schedule_that_is_right_but_not_bitwise_is_a_finding() -> None:
    case = case_of(dtype="float32", batch=10)
    slightly = planted.Plant(weight=lambda size, batch, chunks: size / batch * (1 + 2e-7))
    outcome = run(case, slightly)
    assert check(case, outcome, STEP) == []
    (finding,) = check(case, outcome, Target("gpipe", "schedule"))
    assert (finding.code, finding.cause) == ("gradient-mismatch", "unknown")
    assert "last bits" in finding.message


def test_the_fault_is_told_where_it_began_nearest_to_the_loss() -> None:
    doubled = planted.Plant(outgoing=lambda gradient: 2 * gradient)
    finding = only(case_of(world=3), doubled)
    assert finding.ranks == (0, 1), "the last stage's own gradient is right"
    assert finding.cause == "scale:2", "and stage 1 is told, not stage 0, which has 4"
    assert finding.operations[0].rank == 1
    assert finding.details["stage"] == 0
    assert finding.details["step"] == 0


def test_a_later_steps_fault_is_told_of_that_step() -> None:
    finding = only(case_of(steps=3), planted.kept_from_earlier())
    assert finding.details["step"] == 1


def test_a_cut_graph_points_at_the_forward_whose_input_takes_no_gradient() -> None:
    finding = only(case_of(), planted.no_gradient_of_received())
    assert finding.ranks == (0, 1)
    (operation,) = finding.operations
    assert (operation.rank, operation.op, operation.action) == (2, "forward", "2F0")
    assert operation.state == "input does not require grad"


def test_uneven_microbatches_weighted_as_if_even_are_told_how_to_weight() -> None:
    even = planted.weighted_evenly
    assert check(case_of(batch=8), run(case_of(batch=8), even()), STEP) == []
    finding = only(case_of(batch=10), even())
    assert finding.cause == "unknown"
    assert "counts 0.25, whatever its size" in finding.message
    assert "size / batch.size" in finding.help


def test_values_that_are_not_finite_are_a_mismatch() -> None:
    broken = planted.Plant(outgoing=lambda gradient: gradient * float("nan"))
    finding = only(case_of(), broken)
    assert finding.code == "gradient-mismatch"
    assert "not finite" in finding.message
    assert finding.operations[0].rank == 1


def test_a_step_that_returns_no_loss_breaks_its_contract() -> None:
    def silent(stage: Any, comms: Any, batch: Any, chunks: int) -> None:
        planted.right()(stage, comms, batch, chunks)

    case = case_of()
    (finding,), verdict = examine(case, run(case, silent), STEP)
    assert verdict is not None
    assert verdict.losses == 0
    assert (finding.code, finding.ranks) == ("loss-mismatch", (case.world - 1,))
    assert "returned no loss" in finding.message
    assert finding.operations[0].file == planted.__file__


def test_a_wrong_gradient_comes_before_a_loss_that_was_not_returned() -> None:
    def silent(stage: Any, comms: Any, batch: Any, chunks: int) -> None:
        planted.not_divided()(stage, comms, batch, chunks)

    assert only(case_of(), silent).cause == "scale:4"


def test_a_monolith_that_is_not_finite_counts_as_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = case_of()
    outcome = run(case, planted.right())

    def diverged(reference: Reference, rows: Any, targets: Any = None) -> Columns:
        columns = whole(reference, rows, targets)
        return replace(columns, gradients=columns.gradients * math.nan)

    whole = Reference.columns
    monkeypatch.setattr(Reference, "columns", diverged)
    monkeypatch.setattr(Reference, "columns_once", diverged)
    found, verdict = examine(case, outcome, STEP)
    assert found == []
    assert verdict is not None
    assert not verdict.compared
    result = verdict_on(STEP, case, outcome)
    assert not result.compared
    assert not result.bitwise


@pytest.mark.parametrize(
    ("value", "named"), [([1.0], "a list"), ("0.7", "a str"), (True, "a bool")]
)
def test_a_loss_that_is_no_number_is_named(value: object, named: str) -> None:
    def odd(stage: Any, comms: Any, batch: Any, chunks: int) -> object:
        planted.right()(stage, comms, batch, chunks)
        return value

    finding = only(case_of(), odd)
    assert finding.code == "loss-mismatch"
    assert named in finding.message


def test_a_loss_that_is_hardly_wrong_is_told_in_as_many_digits_as_show_it() -> None:
    def hardly(stage: Any, comms: Any, batch: Any, chunks: int) -> Any:
        loss = planted.right()(stage, comms, batch, chunks)
        return None if loss is None else loss * (1 + 1e-9)

    finding = only(case_of(), hardly)
    assert finding.code == "loss-mismatch"
    found = re.search(r"is (\S+), the monolith's is (\S+);", finding.message)
    assert found is not None
    assert len(set(found.groups())) == 2


def test_what_other_ranks_return_does_not_matter() -> None:
    def chatty(stage: Any, comms: Any, batch: Any, chunks: int) -> object:
        loss = planted.right()(stage, comms, batch, chunks)
        return "done" if loss is None else float(loss)

    assert check(case_of(), run(case_of(), chatty), STEP) == []


def test_a_dropped_microbatch_is_seen_in_bfloat16_too() -> None:
    dropped = planted.in_order(lambda chunks: [0, 2, 3])
    assert only(case_of(dtype="bfloat16"), dropped).code == "gradient-mismatch"


def test_a_rank_that_has_none_to_send_back_is_a_cut_graph() -> None:
    def sends_none(stage: Any, comms: Any, batch: Any, chunks: int) -> None:
        s, c, b = stage, comms, batch
        x = b.inputs if s.is_first else c.receive_forward(s.input_shape(b.size))
        if s.is_last:
            s(x, b.targets).backward()
        else:
            y = s(x)
            c.send_forward(y)
        if not s.is_first:
            c.send_backward(x.grad)

    outcome = run(case_of(world=2), sends_none)
    finding = explain_none_gradient(outcome)
    assert finding is not None
    assert (finding.code, finding.cause) == ("gradient-mismatch", "graph-cut:stage 0")
    assert finding.operations[0].file == __file__
    assert finding.operations[0].rank == 1
    assert explain_none_gradient(run(case_of(world=2), planted.right())) is None


def test_nothing_is_said_of_numbers_where_a_rank_raised() -> None:
    case = case_of(world=2)
    outcome = run(case, planted.right())
    outcome.ranks[1].result = None
    outcome.ending = "failed"
    assert check(case, outcome, STEP) == []


def test_a_rank_that_left_in_the_middle_of_its_step_is_told() -> None:
    case = case_of(world=2)
    outcome = run(case, planted.right())
    outcome.ranks[1].result = None
    (finding,) = check(case, outcome, STEP)
    assert (finding.code, finding.ranks) == ("rank-death", (1,))


def test_results_hold_every_step_of_every_rank() -> None:
    case = case_of(steps=3)
    for result in results(run(case, planted.right())):
        (stage,) = result.stages
        assert [len(record.backwards) for record in stage.steps] == [4, 4, 4]
