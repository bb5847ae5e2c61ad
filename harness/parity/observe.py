"""Hooks on a stage that tell which microbatch went forward and backward, when and where.

They see any step that calls ``stage(x)`` and autograd, whatever else it does. A backward is
reported at its end on the thread that asked for it, so that the line found is the user's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from pipeline.actions import CURRENT, Kind
from pipeline.stage import Stage


class Reporter(Protocol):
    """What takes the compute events: the rank's recorder."""

    def compute(
        self,
        stage: int,
        kind: str,
        microbatch: int,
        start_ns: int,
        end_ns: int,
        requires_grad: bool = True,
    ) -> None:
        """Take one forward or backward."""
        ...

    def now(self) -> int:
        """Return the time in nanoseconds."""
        ...


@dataclass(slots=True)
class Seen:
    """What one step's hooks have seen."""

    forwards: list[int] = field(default_factory=list)
    backwards: list[int] = field(default_factory=list)
    fed: list[tuple[int, ...] | None] = field(default_factory=list)
    aimed: list[tuple[int, ...]] = field(default_factory=list)


class Observer:
    """Watches one stage until :meth:`remove`."""

    def __init__(
        self, stage: Stage, inputs: Tensor | None, reporter: Reporter | None = None
    ) -> None:
        self.seen = Seen()
        self._stage = stage
        self._inputs = inputs
        self._reporter = reporter
        self._now = time.monotonic_ns if reporter is None else reporter.now
        self._start = 0
        self._running: list[tuple[int, int]] = []  # backwards begun: microbatch, when
        self._handles = [
            stage.register_forward_pre_hook(self._before),
            stage.register_forward_hook(self._after, with_kwargs=True),
        ]

    def start_step(self) -> None:
        """Number microbatches from 0 again."""
        self.seen = Seen()
        self._running.clear()

    def remove(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            handle.remove()

    def _before(self, module: Any, args: tuple[Any, ...]) -> None:
        self._start = self._now()

    def _after(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], y: Any) -> None:
        end = self._now()
        x = args[0] if args else kwargs.get("x")
        targets = args[1] if len(args) > 1 else kwargs.get("targets")
        if not isinstance(x, Tensor) or not isinstance(y, Tensor):
            return
        action = CURRENT.get()
        planned = action is not None and action.kind is Kind.F
        microbatch = action.microbatch if action and planned else len(self.seen.forwards)
        self.seen.forwards.append(microbatch)
        if self._inputs is not None:
            self.seen.fed.append(rows_of(x, self._inputs))
        if isinstance(targets, Tensor):
            self.seen.aimed.append(tuple(map(int, targets.reshape(-1).tolist())))
        whole = x.requires_grad or self._stage.is_first
        self._report("F", microbatch, self._start, end, whole)
        if y.requires_grad:
            y.register_hook(self._on_gradient(microbatch))

    def _on_gradient(self, microbatch: int) -> Callable[[Tensor], None]:
        def begun(gradient: Tensor) -> None:
            if not self._running:
                # Runs when this backward is over, on the thread that called it.
                torch.autograd.Variable._execution_engine.queue_callback(self._ended)
            self._running.append((microbatch, self._now()))

        return begun

    def _ended(self) -> None:
        end = self._now()
        for place, (microbatch, start) in enumerate(self._running):
            following = self._running[place + 1 :]
            self.seen.backwards.append(microbatch)
            self._report("B", microbatch, start, following[0][1] if following else end)
        self._running.clear()

    def _report(
        self, kind: str, microbatch: int, start: int, end: int, requires_grad: bool = True
    ) -> None:
        if self._reporter is not None:
            self._reporter.compute(self._stage.index, kind, microbatch, start, end, requires_grad)


def rows_of(x: Tensor, inputs: Tensor) -> tuple[int, ...] | None:
    """Tell which rows of the batch ``x`` is; None when it is not made of them."""
    x, inputs = x.detach(), inputs.detach()
    if x.dim() != 2 or x.shape[1:] != inputs.shape[1:] or x.dtype != inputs.dtype or not len(x):
        return None
    same_storage = x.untyped_storage().data_ptr() == inputs.untyped_storage().data_ptr()
    if same_storage and x.is_contiguous():
        start = (x.storage_offset() - inputs.storage_offset()) // inputs.shape[1]
        return tuple(range(start, start + len(x)))
    equal = (x[:, None, :] == inputs[None, :, :]).all(dim=2)
    if not bool(equal.any(dim=1).all()):
        return None
    return tuple(int(row) for row in equal.int().argmax(dim=1).tolist())
