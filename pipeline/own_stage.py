"""A slice of a user's own model on one rank."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pipeline.model import Batch
from pipeline.own_model import (
    TRIED,
    OwnModel,
    OwnModelError,
    OwnWorkload,
    call,
    checked_loss,
    kind_of,
)
from pipeline.placement import Placement
from pipeline.stage import Stage


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape as it depends on the number of samples."""

    few: tuple[int, ...]
    more: tuple[int, ...]
    """For so many samples as `TRIED` has."""

    def of(self, n: int) -> tuple[int, ...]:
        """Return it for n samples: each size grows by the same with each sample, or not at all."""
        first, second = TRIED
        pairs = zip(self.few, self.more, strict=True)
        return tuple(a + (b - a) // (second - first) * (n - first) for a, b in pairs)


class OwnStage(Stage):
    """What `split` gave for this stage; the first takes all inputs, the last ends with the loss."""

    def __init__(
        self,
        whole: OwnModel,
        shapes: Sequence[Shape | None],
        index: int,
        workload: OwnWorkload,
        device: torch.device | str,
        number: int,
    ) -> None:
        module = whole.slices[index]
        super().__init__([module], index, len(whole.slices), workload, device, number)
        self._loss = whole.loss
        self._shapes = shapes[index], shapes[index + 1]
        self._takes = len(whole.inputs) if self.is_first else 1

    @property
    def module(self) -> nn.Module:
        """The module of this stage, as `split` gave it."""
        return self.units[0]

    def forward(self, *inputs: Tensor, targets: Tensor | None = None) -> Any:  # type: ignore[override]
        """Return the activation; on the last stage the mean loss of these samples.

        Called as `stage(*inputs)` on the first stage, as `stage(x)` on the others, with the targets
        as one more on the last. TypeError where that is not so.
        """
        given, targets = self.given(inputs, {"targets": targets})
        if len(inputs) > self._takes + self.is_last or len(given) < self._takes:
            named = [f"x{at}" for at in range(self._takes)] if self._takes > 1 else ["x"]
            shown = ", ".join([*named, "targets"] if self.is_last else named)
            raise TypeError(f"stage {self.index} is called as stage({shown}): got {len(inputs)}")
        if self.is_last and targets is None:
            raise TypeError(f"stage {self.index} is the last: the targets are missing")
        if not self.is_last and targets is not None:
            raise TypeError(f"stage {self.index} is not the last: it takes no targets")
        output = call(self.module, given)
        return output if targets is None else checked_loss(self._loss, output, targets)

    def given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
        """Tell the inputs of a call from its targets, None where it has none."""
        targets = args[self._takes] if len(args) > self._takes else kwargs.get("targets")
        return args[: self._takes], targets

    def input_shape(self, n: int) -> tuple[int, ...]:
        """Return the shape that comes in with n samples; on the first stage, of its first input."""
        return self._shape(0).of(n)

    def output_shape(self, n: int) -> tuple[int, ...]:
        """Return the shape that goes out with n samples; on the last stage, the output's."""
        return self._shape(1).of(n)

    def _shape(self, end: int) -> Shape:
        shape = self._shapes[end]
        if shape is None:
            raise TypeError(f"the output of stage {self.index} is not one tensor: it has no shape")
        return shape


def shapes_between(whole: OwnModel, dtype: torch.dtype) -> tuple[Shape | None, ...]:
    """Run the stages on a few samples; return the shape before each, and after the last.

    The last is None where the output is not one tensor. OwnModelError where a stage fails, or what
    goes from one to the next is not one tensor of that dtype.
    """
    slices = copy.deepcopy(whole.slices)  # a forward may change a module
    first, second = (_run(slices, whole, count, dtype) for count in TRIED)
    return tuple(
        None if a is None or b is None else Shape(a, b) for a, b in zip(first, second, strict=True)
    )


def _run(
    slices: Sequence[nn.Module], whole: OwnModel, count: int, dtype: torch.dtype
) -> list[tuple[int, ...] | None]:
    rows = [at % len(whole.targets) for at in range(count)]
    given: tuple[Any, ...] = tuple(tensor[rows] for tensor in whole.inputs)
    shapes: list[tuple[int, ...] | None] = [tuple(given[0].shape)]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        for index, part in enumerate(slices):
            try:
                output = call(part, given)
            except Exception as error:
                what = f"{type(error).__name__}: {' '.join(str(error).split())}"
                raise OwnModelError(f"stage {index} of the split model fails: {what}") from error
            is_last = index + 1 == len(slices)
            if not is_last:
                _require_activation(output, index, dtype)
            shapes.append(tuple(output.shape) if isinstance(output, Tensor) else None)
            given = (output,)
    return shapes


def _require_activation(output: Any, index: int, dtype: torch.dtype) -> None:
    if not isinstance(output, Tensor):
        raise OwnModelError(
            f"stage {index} of the split model returns {kind_of(output)}; from stage to stage goes "
            "one tensor"
        )
    if output.dtype != dtype:
        raise OwnModelError(
            f"stage {index} of the split model returns {output.dtype} where the model is {dtype}: "
            "let what it computes follow its parameters' dtype"
        )


def build_own(
    workload: OwnWorkload, placement: Placement, rank: int, device: torch.device | str
) -> tuple[list[Stage], Batch]:
    """Build a rank's stages of a user's model and what it sees of the batch.

    Stages of one rank share a parameter that both hold. OwnModelError as for
    :meth:`OwnWorkload.whole`.
    """
    whole = workload.whole()
    shapes = shapes_between(whole, workload.dtype)
    stages: list[Stage] = [
        OwnStage(whole, shapes, placement.slice_of(number), workload, device, number)
        for number in placement.held_by(rank)
    ]
    inputs = tuple(tensor.to(device) for tensor in whole.inputs)
    batch = Batch(
        size=workload.batch,
        inputs=(inputs if whole.several else inputs[0])
        if any(stage.is_first for stage in stages)
        else None,
        targets=whole.targets.to(device) if any(stage.is_last for stage in stages) else None,
    )
    return stages, batch
