"""A slice of the model on one rank, and the microbatches in flight through it."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pipeline.model import NONE, Batch, Workload, build, loss_weight, split


class Stage(nn.Module):
    """Consecutive units of the monolith; the last stage ends with the head and the loss."""

    def __init__(
        self,
        units: Sequence[nn.Module],
        index: int,
        count: int,
        workload: Workload,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        self.index = index
        self.count = count
        self.is_first = index == 0
        self.is_last = index == count - 1
        self.dtype = workload.dtype
        self.device = torch.device(device)
        self.units = nn.Sequential(*units).to(self.device)
        self._workload = workload

    def forward(self, x: Tensor, targets: Tensor | None = None) -> Tensor:
        """Return the activation; on the last stage the mean loss of these samples.

        TypeError where targets are given to another stage, or missing on the last.
        """
        if self.is_last and targets is None:
            raise TypeError(f"stage {self.index} is the last: call stage(x, targets)")
        if not self.is_last and targets is not None:
            raise TypeError(f"stage {self.index} is not the last: call stage(x), without targets")
        y: Tensor = self.units(x)
        return y if targets is None else F.cross_entropy(y, targets)

    def input_shape(self, n: int) -> tuple[int, ...]:
        """Return the shape that comes in with n samples."""
        return n, self._workload.width

    def output_shape(self, n: int) -> tuple[int, ...]:
        """Return the shape that goes out with n samples; of the last stage, its logits."""
        return n, self._workload.classes if self.is_last else self._workload.width

    def monolith_name(self, name: str) -> str:
        """Translate the name of a parameter here to its name in the monolith."""
        units, unit, *rest = name.split(".")
        start = split(self._workload.layers, self.count)[self.index].start
        return ".".join([units, str(start + int(unit)), *rest])


def build_stage(
    workload: Workload, index: int, count: int, device: torch.device | str = "cpu"
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
    return Stage(build(workload, own).units, index, count, workload, device)


def build_batch(workload: Workload, stage: Stage) -> Batch:
    """Draw the workload's batch and keep what this stage's rank may see of it."""
    built = build(workload, NONE)
    return Batch(
        size=workload.batch,
        inputs=built.inputs.to(stage.device) if stage.is_first else None,
        targets=built.targets.to(stage.device) if stage.is_last else None,
    )


class StageRunner:
    """Runs F and B of microbatches on a stage, and holds what lies between the two."""

    def __init__(self, stage: Stage, batch: Batch, sizes: Sequence[int]) -> None:
        self.stage = stage
        self.peak_in_flight = 0
        self._batch_size = batch.size
        self._sizes = sizes
        self._inputs = None if batch.inputs is None else batch.inputs.split(list(sizes))
        self._targets = None if batch.targets is None else batch.targets.split(list(sizes))
        self._saved: dict[int, tuple[Tensor, Tensor]] = {}
        self._loss = torch.zeros((), dtype=stage.dtype, device=stage.device)

    @property
    def in_flight(self) -> int:
        """How many microbatches have been forward and not backward."""
        return len(self._saved)

    @property
    def loss(self) -> Tensor | None:
        """The batch's mean loss so far, on the last stage; 0-d and detached."""
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
        self.peak_in_flight = max(self.peak_in_flight, len(self._saved))
        return y

    def backward(self, microbatch: int, gradient: Tensor | None = None) -> Tensor | None:
        """Run B on a received gradient, on the last stage on the loss; free what F saved.

        Adds to the parameters' gradients, weighted so that their sum is the batch's mean. Returns
        the input's gradient; None on the first stage.
        """
        x, y = self._saved.pop(microbatch)
        if self.stage.is_last:
            gradient = loss_weight(y, self._sizes[microbatch], self._batch_size)
            self._loss += y.detach() * gradient
        torch.autograd.backward(y, gradient)
        return x.grad

    def clear(self) -> None:
        """Let go of every activation."""
        self._saved.clear()
