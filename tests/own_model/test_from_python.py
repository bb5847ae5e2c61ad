"""``harness.check(step, model=…, data=…)``: what may be given, and what is wrong, told."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import harness
from harness.case import Case, UsageError
from harness.findings import Finding, Report
from harness.parity.observe import rows_of_all
from harness.shrink import shrink
from harness.stream import Limits, stream
from harness.targets import Target, TargetError
from pipeline.own_stage import Shape
from tests.own_model.pieces import CLASSES, WIDE, data, model, step


def check(**given: Any) -> Report:
    usual: dict[str, Any] = {"world_size": 2, "chunks": 2, "cases": 1, "confirm": False}
    return harness.check(
        given.pop("step", step), **(usual | {"model": model, "data": data} | given)
    )


def only(**given: Any) -> Finding:
    (finding,) = check(**given).findings
    return finding


def test_a_model_given_from_python_is_clean_bit_for_bit() -> None:
    report = check(world_size=(1, 2, 3), chunks=(1, 3), cases=5)
    report.raise_if_findings()
    assert report.tried["compared"] == report.tried["bitwise"] == 5
    assert report.tried["workload"] == []


def test_a_sequential_s_children_are_spread_evenly_and_too_many_stages_are_refused() -> None:
    report = check(world_size=6, chunks=1)
    assert report.cases.refused == 1
    assert report.error is not None
    assert "5 layers cannot fill 6 stages" in report.error


def test_a_model_may_be_the_same_object_at_every_call() -> None:
    kept = model()
    check(model=lambda: kept).raise_if_findings()


def test_the_loss_optimizer_and_split_given_are_those_used() -> None:
    def to_one(output: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(output.sum(dim=1), targets.to(output.dtype))

    def uneven(whole: Any, stages: int) -> list[nn.Module]:
        return [whole[:1], whole[1:]]

    given: dict[str, Any] = {
        "loss": to_one,
        "split": uneven,
        "optimizer": lambda parameters: torch.optim.AdamW(parameters, lr=0.05, weight_decay=0.2),
    }
    check(**given, cases=2).raise_if_findings()

    def without_decay(stage: Any, comms: Any, batch: Any, chunks: int) -> Tensor | None:
        total = step(stage, comms, batch, chunks)
        for parameter in stage.parameters():
            parameter.data.mul_(1.25)
        return total

    finding = only(step=without_decay, **given)
    assert finding.code == "parameter-mismatch"
    assert "optimizer=" not in finding.case
    assert "optimizer=" in only(step=without_decay).case


def test_a_step_that_has_its_model_as_attributes_is_replayed_with_it() -> None:
    def own(stage: Any, comms: Any, batch: Any, chunks: int) -> Tensor | None:
        return doubled(stage, comms, batch, chunks)

    own.model, own.data = model, data  # type: ignore[attr-defined]
    (finding,) = harness.replay("own world=2 chunks=2 batch=3", own).findings
    assert finding.cause == "scale:2"
    assert "stage 0 0.0.weight" in finding.message


class Trainer:
    """An object that is a step, and has a model and data for its own purposes."""

    def __init__(self) -> None:
        self.model, self.data = model(), [1, 2]

    def __call__(self, stage: Any, comms: Any, batch: Any, chunks: int) -> Tensor | None:
        return step(stage, comms, batch, chunks)


def test_an_object_s_own_attributes_are_not_taken_for_a_user_s_model() -> None:
    report = check(step=Trainer(), model=None, data=None)
    report.raise_if_findings()
    assert report.tried["workload"] == ["conditioned"]


class Float32Inside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDE, WIDE)

    def forward(self, x: Tensor) -> Tensor:
        return F.softmax(self.linear(x).float(), dim=1).to(x.dtype)


def test_a_model_that_rounds_to_float32_in_between_is_no_fault() -> None:
    def rounding() -> nn.Module:
        return nn.Sequential(Float32Inside(), Float32Inside(), nn.Linear(WIDE, CLASSES))

    def weighted_after(stage: Any, comms: Any, batch: Any, chunks: int) -> Tensor | None:
        return step(stage, comms, batch, chunks)  # as right as any

    check(model=rounding, step=weighted_after, cases=3, chunks=(2, 3)).raise_if_findings()


class Float32Alone(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDE, WIDE)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x.float())
        return out


def test_a_model_that_runs_in_float32_alone_is_compared_in_float32() -> None:
    def single() -> nn.Module:
        return nn.Sequential(Float32Alone(), nn.Linear(WIDE, WIDE), nn.Linear(WIDE, CLASSES))

    report = check(model=single, cases=2, chunks=(2, 3))
    report.raise_if_findings()
    assert report.tried["dtype"] == []
    finding = only(model=single, step=doubled)
    assert finding.cause == "scale:2"
    assert "dtype=" not in finding.case


def doubled(stage: Any, comms: Any, batch: Any, chunks: int) -> Tensor | None:
    total = step(stage, comms, batch, chunks)
    for parameter in stage.parameters():
        parameter.grad *= 2
    return total


def test_the_usual_causes_are_shown_of_a_model_of_one_s_own() -> None:
    finding = only(step=doubled)
    assert (finding.code, finding.cause) == ("gradient-mismatch", "scale:2")
    assert "stage 0 0.0.weight" in finding.message


def frozen() -> nn.Module:
    whole = model()
    next(whole.parameters()).requires_grad_(False)
    return whole


def test_a_parameter_that_is_not_trained_is_no_fault() -> None:
    check(model=frozen).raise_if_findings()


def lost(whole: Any, stages: int) -> list[nn.Module]:
    return [whole[:2], whole[3:]]


def copied(whole: Any, stages: int) -> list[nn.Module]:
    return [whole[:2], nn.Sequential(*whole[2:4], nn.Linear(WIDE, CLASSES))]


def turned(whole: Any, stages: int) -> list[nn.Module]:
    return [nn.Sequential(whole[1], whole[0]), whole[2:]]


@pytest.mark.parametrize(
    ("split", "told"),
    [
        (lost, "no stage has the model's 2.0.weight and 2.0.bias"),
        (copied, "parameters that are not the model's own: 2.weight of stage 1"),
        (turned, "do not compute what the model does"),
    ],
)
def test_a_split_that_is_not_the_model_is_a_layer_mismatch(
    split: Callable[..., Any], told: str
) -> None:
    finding = only(split=split)
    assert finding.code == "layer-mismatch"
    assert told in finding.message
    assert finding.operations[0].function == split.__name__


def unseeded() -> nn.Module:
    whole = model()
    with torch.no_grad():
        next(whole.parameters())[0, 0] = random.SystemRandom().random()
    return whole


def test_a_model_with_other_numbers_at_every_call_is_an_init_mismatch() -> None:
    finding = only(model=unseeded)
    assert finding.code == "init-mismatch"
    assert (
        "0.0.weight of stage 0 has other values than at another call of model()" in finding.message
    )


def raising() -> nn.Module:
    raise RuntimeError("no weights here")


class Noted(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        error = RuntimeError("no kernel")
        error.add_note("in a note\nof two lines")
        raise error


BAD: list[tuple[dict[str, Any], str]] = [
    ({"model": lambda: None}, r"model\(\) returned None; expected an nn.Module"),
    ({"model": model()}, r"model is a module; give a function"),
    ({"model": raising}, r"model\(\) fails: RuntimeError: no weights here"),
    ({"data": lambda batch: raising()}, r"data\(6\) fails: RuntimeError: no weights here"),
    ({"loss": lambda y, t: raising()}, r"loss\(output, targets\) fails: RuntimeError"),
    ({"model": lambda: Noted(WIDE, 2)}, r"its model cannot be run: RuntimeError: no kernel$"),
    ({"optimizer": lambda parameters: raising()}, r"optimizer\(parameters\) fails: RuntimeError"),
    ({"model": lambda: nn.Linear(3, 3)}, r"its model cannot be run: RuntimeError: mat1 and mat2"),
    ({"data": None}, r"model without data; a model of one's own needs both"),
    ({"model": None, "data": None, "loss": F.mse_loss}, r"loss without model"),
    ({"data": lambda batch: torch.ones(batch)}, r"data\(6\) returned a tensor of shape \(6,\)"),
    ({"data": lambda batch: (torch.ones(2, WIDE), torch.ones(batch))}, r"inputs of shape \(2, 6\)"),
    ({"data": lambda batch: (torch.ones(6, WIDE), [1])}, r"gave a list of 1 as targets"),
    (
        {"loss": lambda y, t: F.cross_entropy(y, t, reduction="none")},
        r"shape \(6,\); expected a 0-d",
    ),
    ({"loss": lambda y, t: F.cross_entropy(y, t, reduction="sum")}, r"let the loss be a mean"),
    ({"model": lambda: nn.Sequential(model(), nn.Dropout(0.5))}, r"dropout\?"),
    ({"model": lambda: nn.Sequential(nn.BatchNorm1d(WIDE), model())}, r"no batch normalisation"),
    ({"split": lambda whole, stages: [whole]}, r"split\(model, 2\) returned 1 modules; expected 2"),
    (
        {"split": lambda whole, stages: [whole, 3]},
        r"split\(model, 2\) gave an int; expected a list",
    ),
    ({"split": lambda whole, stages: None}, r"split\(model, 2\) returned None; expected a list"),
    ({"model": lambda: nn.Linear(WIDE, CLASSES)}, r"a Linear is cut into stages by split"),
    (
        {"split": lambda whole, stages: [whole[:2], nn.Linear(3, 3)]},
        r"stage 1 of the split model fails: RuntimeError: mat1 and mat2",
    ),
    ({"optimizer": lambda parameters: None}, r"optimizer\(parameters\) returned None"),
    ({"optimizer": 3}, r"optimizer is int, not a function"),
    ({"step": "1f1b"}, r"model= goes with a step, and 1f1b is none"),
    ({"build_stage": lambda *shape: None}, r"build_stage= goes with the harness's model"),
]


@pytest.mark.parametrize(("given", "told"), BAD, ids=[told[:30] for _, told in BAD])
def test_what_cannot_be_used_is_one_clear_line(given: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told) as raised:
        check(**given)
    assert "\n" not in str(raised.value)


def test_what_they_raise_is_shown_once_from_their_own_frame() -> None:
    with pytest.raises(TargetError) as raised:
        check(model=raising)
    head, first, *rest = raised.value.traceback.splitlines()
    assert head == "Traceback (most recent call last):"
    assert f'File "{__file__}"' in first
    assert "Traceback" not in "".join(rest)


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDE, WIDE)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.linear(x), x


class Joined(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDE, CLASSES)

    def forward(self, both: tuple[Tensor, Tensor]) -> Tensor:
        out: Tensor = self.linear(both[0] + both[1])
        return out


def test_two_tensors_between_stages_are_refused_and_within_one_are_not() -> None:
    def paired() -> nn.Module:
        return nn.Sequential(Pair(), Joined())

    with pytest.raises(TargetError, match="stage 0 of the split model returns a tuple of 2"):
        check(model=paired)
    check(model=paired, world_size=1).raise_if_findings()


def test_a_user_s_traceback_comes_with_what_cannot_be_run() -> None:
    with pytest.raises(TargetError) as raised:
        check(model=raising)
    assert "in raising" in raised.value.traceback


def test_cases_have_only_what_decides_a_model_of_one_s_own() -> None:
    target = Target("own.py:step", "step", without=("layers", "width", "workload"))
    drawn = [case for _, case in zip(range(60), stream(target, Limits(), "sim"), strict=False)]
    assert {(case.layers, case.width, case.workload) for case in drawn} == {(None, None, None)}
    assert {case.dtype for case in drawn} == {"float32", "float64"}
    assert {case.optimizer for case in drawn} == {"sgd", "adam"}
    assert len(set(drawn)) == 60


def test_shrinking_leaves_out_what_the_case_left_out() -> None:
    case = Case("own.py:step", 5, chunks=8, batch=13, dtype="float32", steps=3, optimizer="adam")
    tried = []

    def fails(candidate: Case) -> bool:
        tried.append(candidate)
        return candidate.world >= 2 and (candidate.chunks or 0) >= 2

    small = shrink(case, fails)
    assert (small.world, small.chunks, small.batch) == (2, 2, 2)
    assert (small.dtype, small.steps, small.optimizer) == ("float64", 1, "sgd")
    assert {(c.layers, c.width, c.workload) for c in tried} == {(None, None, None)}


def test_shapes_follow_the_samples_in_whichever_dimension_they_are() -> None:
    assert Shape((5, 2, 8), (5, 3, 8)).of(7) == (5, 7, 8)
    assert Shape((10,), (15,)).of(1) == (5,)
    assert Shape((3, 4), (4, 4)).of(5) == (6, 4)  # one more than the samples


def test_the_rows_of_several_inputs_are_those_that_all_of_them_are() -> None:
    words, kinds = torch.tensor([[1, 2], [3, 4], [1, 2]]), torch.tensor([0, 0, 1])
    inputs = (words, kinds)
    assert rows_of_all((words[[2, 1]], kinds[[2, 1]]), inputs) == ((2, 1), ())
    assert rows_of_all((words[1:], kinds[1:] + 7), inputs) == ((1, 0), (1,))
    assert rows_of_all((words[1:] * 9, kinds[1:]), inputs) == ((0, 2), (0,))
    assert rows_of_all((words[1:] * 9, kinds[1:] + 7), inputs) == (None, (0, 1))
    assert rows_of_all((words[1:2], kinds[2:]), inputs) == ((1,), (1,))
