"""What a rank brings back from its steps: plain values and bytes, cheap to send."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from harness.trace import Frame


def pack(tensors: Iterable[Tensor | None], like: Sequence[Tensor]) -> bytes:
    """Return the values of ``tensors`` one after the other; zeros for a None."""
    with torch.no_grad():
        flat = [
            (torch.zeros_like(model) if tensor is None else tensor).reshape(-1)
            for tensor, model in zip(tensors, like, strict=True)
        ]
        if not flat:
            return b""
        joined = torch.cat(flat).cpu()
    return joined.view(torch.uint8).numpy().tobytes()


def unpack(data: bytes, dtype: torch.dtype) -> Tensor:
    """Return the packed values as one flat tensor on the CPU."""
    if not data:
        return torch.zeros(0, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=dtype)


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step on one rank. Microbatches are numbered as this rank's forwards number them."""

    gradient: bytes
    parameters: bytes  # after the optimizer's update
    absent: tuple[int, ...] = ()  # parameters whose gradient is None
    loss: float | None = None
    loss_type: str | None = None  # what was returned where it is not a number
    forwards: tuple[int, ...] = ()  # microbatches in the order of their forwards
    backwards: tuple[int, ...] = ()  # and of their backwards
    fed: tuple[tuple[int, ...] | None, ...] = ()  # first stage: rows of the batch, per forward
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
class StepResult:
    """What one rank computed, or why it computed nothing."""

    rank: int
    layout: tuple[tuple[str, tuple[int, ...]], ...] = ()  # parameters: name, shape
    initial: bytes = b""
    steps: tuple[StepRecord, ...] = ()
    built_at: Frame | None = None  # the user's build_stage, where it made the stage
    refused: Raised | None = None
    unloadable: Raised | None = None
    problems: tuple[PlanProblem, ...] = field(default=())
    plan_error: str = ""

    @property
    def size(self) -> int:
        """How many parameter values this rank holds."""
        return sum(math.prod(shape) for _, shape in self.layout)
