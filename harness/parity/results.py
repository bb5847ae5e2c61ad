"""What a rank brings back from its steps: plain values and bytes, cheap to send."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from harness.trace import Frame


def pack(tensors: Iterable[Tensor | None], like: Sequence[Tensor]) -> bytes:
    """Return the values of ``tensors`` one after the other; zeros for a None."""
    return b"".join(
        _bytes_of(torch.zeros_like(model) if tensor is None else tensor)
        for tensor, model in zip(tensors, like, strict=True)
    )


def _bytes_of(tensor: Tensor) -> Any:
    """Return the values as a buffer: the same memory, where it is contiguous and on the CPU."""
    return tensor.detach().reshape(-1).view(torch.uint8).cpu().numpy()


def unpack(data: bytes, dtype: torch.dtype) -> Tensor:
    """Return the packed values as one flat tensor on the CPU."""
    if not data:
        return torch.zeros(0, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=dtype)


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of one stage. Microbatches are numbered as its forwards number them."""

    gradient: bytes
    parameters: bytes  # after the optimizer's update
    absent: tuple[int, ...] = ()  # parameters whose gradient is None
    loss: float | None = None
    loss_type: str | None = None  # what was returned where it is not a number
    forwards: tuple[int, ...] = ()  # microbatches in the order of their forwards
    backwards: tuple[int, ...] = ()  # and of their backwards, of a split one I
    weights: tuple[int, ...] = ()  # and in which they were added to the parameters' gradients
    fed: tuple[tuple[int, ...] | None, ...] = ()  # first stage: rows of the batch, per forward
    unlike: tuple[int, ...] = ()  # of several inputs, those that were none of the batch's samples
    stale: tuple[int, ...] = ()  # first stage: earlier steps whose samples it was given
    aimed: tuple[tuple[int, ...], ...] = ()  # last stage: the targets, per forward


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception that is not a fault by itself: a refused shape, a target that cannot load."""

    type: str
    message: str
    frames: tuple[Frame, ...] = ()
    traceback: str = ""
    time_ns: int = 0


@dataclass(frozen=True, slots=True)
class PlanProblem:
    """One thing wrong with the target's plan."""

    rank: int
    action: str
    reason: str
    file: str = "<unknown>"
    line: int = 0
    function: str = "<unknown>"


@dataclass(frozen=True, slots=True)
class StageResult:
    """What one stage computed on its rank."""

    rank: int
    number: int  # as the plan has it
    slice: int  # of the model; two directions have each twice
    layout: tuple[tuple[str, tuple[int, ...]], ...] = ()  # parameters: name, shape
    initial: bytes = b""
    steps: tuple[StepRecord, ...] = ()
    built_at: Frame | None = None  # the user's function that made the stage

    @property
    def size(self) -> int:
        """How many parameter values this stage holds."""
        return sum(math.prod(shape) for _, shape in self.layout)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one rank computed, or why it computed nothing."""

    rank: int
    stages: tuple[StageResult, ...] = ()  # in the order of their numbers
    refused: Raised | None = None
    unloadable: Raised | None = None
    problems: tuple[PlanProblem, ...] = field(default=())
    plan_error: str = ""
    defined_at: Frame | None = None  # of what computed nothing: where the target itself is

    @property
    def ran(self) -> bool:
        """Whether it has the numbers of any step."""
        return bool(self.stages) and all(stage.steps for stage in self.stages)


Chain = tuple[StageResult, ...]
"""The stages that are the whole model once, in its order."""


def chains(results: Iterable[StepResult]) -> tuple[Chain, ...]:
    """Put the stages of all ranks in the model's order: once, or for each of two directions."""
    stages = sorted((s for result in results for s in result.stages), key=lambda s: s.number)
    depth = 1 + max(stage.slice for stage in stages)
    return tuple(tuple(stages[at : at + depth]) for at in range(0, len(stages), depth))
