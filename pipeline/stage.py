"""A slice of the model on one rank, and the microbatches in flight through it."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pipeline.model import NONE, Batch, Training, Workload, build, loss_weight, split
from pipeline.placement import Placement
from pipeline.split_backward import Later, split_backward

AroundWeights = Callable[[int], AbstractContextManager[object]]
OnTargets = Callable[[Tensor], None]


def _unwatched(microbatch: int) -> AbstractContextManager[object]:
    return nullcontext()


def _unheard(targets: Tensor) -> None:
    pass


class Stage(nn.Module):
    """Consecutive units of the monolith; the last stage ends with the head and the loss."""

    def __init__(
        self,
        units: Sequence[nn.Module],
        index: int,
        count: int,
        workload: Training,
        device: torch.device | str = "cpu",
        number: int | None = None,
    ) -> None:
        super().__init__()
        self.index = index
        self.count = count
        self.number = index if number is None else number
        """What a plan calls it; another than `index` in the second of two directions."""
        self.around_weights: AroundWeights = _unwatched
        """Makes a block in which a weight gradient (W) is computed; given its microbatch."""
        self.around_input: AroundWeights = _unwatched
        """Likewise of an input gradient (I) that leaves everything to W: of the first stage."""
        self.loss_apart = False
        """Whether the last stage returns its logits, and `loss` is called with them."""
        self.on_targets: OnTargets = _unheard
        """Is given the targets of each microbatch whose loss is computed apart."""
        self.is_first = index == 0
        self.is_last = index == count - 1
        self.dtype = workload.dtype
        self.device = torch.device(device)
        self.units = nn.Sequential(*units).to(self.device)
        self._workload = workload if isinstance(workload, Workload) else None

    def forward(self, x: Tensor, targets: Tensor | None = None) -> Tensor:
        """Return the activation; on the last stage the mean loss of these samples.

        TypeError where targets are given to another stage, or missing on the last. With
        `loss_apart` the last stage is called without them, and returns its logits.
        """
        if self.is_last and targets is None and not self.loss_apart:
            raise TypeError(f"stage {self.index} is the last: call stage(x, targets)")
        if not self.is_last and targets is not None:
            raise TypeError(f"stage {self.index} is not the last: call stage(x), without targets")
        y: Tensor = self.units(x)
        return y if targets is None else F.cross_entropy(y, targets)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss of these samples, where it is computed apart from the forward."""
        self.on_targets(targets)
        return F.cross_entropy(logits, targets)

    def given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
        """Tell the inputs of a call of `forward` from its targets, None where it has none."""
        x = args[:1] or ((kwargs["x"],) if "x" in kwargs else ())
        return x, args[1] if len(args) > 1 else kwargs.get("targets")

    @property
    def workload(self) -> Workload:
        """The seeded workload that it is a slice of."""
        assert self._workload is not None, "a stage of the seeded model is meant"
        return self._workload

    def input_shape(self, n: int) -> tuple[int, ...]:
        """Return the shape that comes in with n samples."""
        return n, self.workload.width

    def output_shape(self, n: int) -> tuple[int, ...]:
        """Return the shape that goes out with n samples; of the last stage, its logits."""
        return n, self.workload.classes if self.is_last else self.workload.width

    def monolith_name(self, name: str) -> str:
        """Translate the name of a parameter here to its name in the monolith."""
        units, unit, *rest = name.split(".")
        start = split(self.workload.layers, self.count)[self.index].start
        return ".".join([units, str(start + int(unit)), *rest])


def build_stage(
    workload: Workload,
    index: int,
    count: int,
    device: torch.device | str = "cpu",
    number: int | None = None,
) -> Stage:
    """Draw the whole seeded model and keep one slice.

    Skipping ahead in the random state instead is faster and hard to get right: what an init
    consumes is not the number of its parameters.
    """
    layers = split(workload.layers, count)
    if not 0 <= index < count:
        raise ValueError(f"stage index must be within 0..{count - 1}: got {index}")
    stop = layers[index].stop + (index == count - 1)
    own = slice(layers[index].start, stop)
    return Stage(build(workload, own).units, index, count, workload, device, number)


def build_stages(
    workload: Workload, placement: Placement, rank: int, device: torch.device | str = "cpu"
) -> list[Stage]:
    """Build the stages that a rank holds, in order of their numbers."""
    depth = placement.depth
    return [
        build_stage(workload, placement.slice_of(number), depth, device, number)
        for number in placement.held_by(rank)
    ]


def build_batch(workload: Workload, stages: Stage | Sequence[Stage]) -> Batch:
    """Draw the workload's batch and keep what the rank of these stages may see of it."""
    held = [stages] if isinstance(stages, Stage) else stages
    built = build(workload, NONE)
    device = held[0].device
    return Batch(
        size=workload.batch,
        inputs=built.inputs.to(device) if any(stage.is_first for stage in held) else None,
        targets=built.targets.to(device) if any(stage.is_last for stage in held) else None,
    )


class StageRunner:
    """Runs F, B, I and W of microbatches on a stage, and holds what lies between them."""

    def __init__(self, stage: Stage, batch: Batch, sizes: Sequence[int]) -> None:
        self.stage = stage
        self._batch_size = batch.size
        self._sizes = sizes
        inputs = batch.inputs if stage.is_first else None
        targets = batch.targets if stage.is_last else None
        self._inputs = None if inputs is None else inputs.split(list(sizes))
        self._targets = None if targets is None else targets.split(list(sizes))
        self._saved: dict[int, tuple[Tensor, Tensor]] = {}
        self._later: dict[int, Later] = {}
        self._loss = torch.zeros((), dtype=stage.dtype, device=stage.device)

    @property
    def in_flight(self) -> int:
        """How many microbatches have been forward, and not backward down to the weights."""
        return len(self._saved) + len(self._later)

    @property
    def loss(self) -> Tensor | None:
        """The mean loss so far, weighted by size; 0-d and detached. None but on a last stage."""
        return self._loss if self.stage.is_last else None

    def input_shape(self, microbatch: int) -> tuple[int, ...]:
        """Return the shape of a microbatch's activation on its way in."""
        return self.stage.input_shape(self._sizes[microbatch])

    def output_shape(self, microbatch: int) -> tuple[int, ...]:
        """Return the shape of a microbatch's activation on its way out."""
        return self.stage.output_shape(self._sizes[microbatch])

    def forward(self, microbatch: int, x: Tensor | None = None) -> Tensor:
        """Run F on a received activation, on the first stage on the batch's own slice."""
        if self._inputs is not None:
            x = self._inputs[microbatch]
        elif x is not None:
            x.requires_grad_()
        assert x is not None, "a stage that is not the first is given its input"
        y: Tensor = self.stage(x, self._targets[microbatch]) if self._targets else self.stage(x)
        self._saved[microbatch] = x, y
        return y

    def backward(self, microbatch: int, gradient: Tensor | None = None) -> Tensor | None:
        """Run B on a received gradient, on the last stage on the loss; free what F saved.

        Adds to the parameters' gradients, weighted so that their sum is the batch's mean. Returns
        the input's gradient; None on the first stage.
        """
        x, y, gradient = self._begin(microbatch, gradient)
        torch.autograd.backward(y, gradient)
        return self._of_input(x, x.grad)

    def backward_input(self, microbatch: int, gradient: Tensor | None = None) -> Tensor | None:
        """Run I: return what `backward` does, and leave the parameters' gradients to W."""
        x, y, gradient = self._begin(microbatch, gradient)
        if self.stage.is_first:
            with self.stage.around_input(microbatch):
                _, self._later[microbatch] = split_backward(y, gradient, None)
            return None
        of_input, self._later[microbatch] = split_backward(y, gradient, x)
        return self._of_input(x, of_input)

    def _of_input(self, x: Tensor, gradient: Tensor | None) -> Tensor | None:
        """Return what the stage before waits for: zeros where the output does not depend on `x`."""
        if gradient is None and not self.stage.is_first:
            return torch.zeros_like(x)
        return gradient

    def backward_weight(self, microbatch: int) -> None:
        """Run W: add what I left to the parameters' gradients; free what F saved."""
        later = self._later.pop(microbatch)
        with self.stage.around_weights(microbatch):
            later()

    def _begin(
        self, microbatch: int, gradient: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        x, y = self._saved.pop(microbatch)
        if self.stage.is_last:
            gradient = loss_weight(y, self._sizes[microbatch], self._batch_size)
            self._loss += y.detach() * gradient
        return x, y, gradient

    def clear(self) -> None:
        """Let go of every activation."""
        self._saved.clear()
        self._later.clear()
