"""Hooks on a stage that tell which microbatch went forward and backward, when and where.

They see any step that calls ``stage(x)`` and autograd, whatever else it does. A backward is
reported at its end on the thread that asked for it, so that the line found is the user's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
    weights: list[int] = field(default_factory=list)
    fed: list[tuple[int, ...] | None] = field(default_factory=list)
    unlike: set[int] = field(default_factory=set)
    stale: set[int] = field(default_factory=set)
    aimed: list[tuple[int, ...]] = field(default_factory=list)


class Observer:
    """Watches one stage until :meth:`remove`."""

    def __init__(self, stage: Stage, reporter: Reporter | None = None) -> None:
        self.seen = Seen()
        self._stage = stage
        self._inputs: tuple[Tensor, ...] | None = None  # of the step's batch, on a first stage
        self._earlier: list[tuple[Tensor, ...]] = []  # and of those before
        self._reporter = reporter
        self._now = time.monotonic_ns if reporter is None else reporter.now
        self._start = 0
        self._running: list[tuple[str, int, int]] = []  # backwards begun: kind, microbatch, when
        self._around_weights = stage.around_weights
        self._around_input = stage.around_input
        stage.around_weights, stage.around_input = self._weights, self._input
        self._on_targets = stage.on_targets
        stage.on_targets = self._aimed
        self._handles = [
            stage.register_forward_pre_hook(self._before),
            stage.register_forward_hook(self._after, with_kwargs=True),
        ]

    def start_step(self, inputs: Any) -> None:
        """Number microbatches from 0 again; ``inputs`` are the step's batch's, None elsewhere."""
        if self._inputs is not None:
            self._earlier.append(self._inputs)
        self._inputs = None
        if self._stage.is_first and inputs is not None:
            self._inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        self.seen = Seen()
        self._running.clear()

    def remove(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            handle.remove()
        self._stage.around_weights = self._around_weights
        self._stage.around_input = self._around_input
        self._stage.on_targets = self._on_targets

    def _before(self, module: Any, args: tuple[Any, ...]) -> None:
        self._start = self._now()

    def _after(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], y: Any) -> None:
        end = self._now()
        given, targets = self._stage.given(args, kwargs)
        x = given[0] if given else None
        if not isinstance(x, Tensor) or not isinstance(y, Tensor):
            return
        action = CURRENT.get()
        planned = action is not None and action.kind is Kind.F
        microbatch = action.microbatch if action and planned else len(self.seen.forwards)
        self.seen.forwards.append(microbatch)
        if self._inputs is not None:
            rows, unlike = rows_of_all(given, self._inputs)
            self.seen.fed.append(rows)
            self.seen.unlike.update(unlike)
            if rows is None:
                self.seen.stale.update(
                    step
                    for step, inputs in enumerate(self._earlier)
                    if rows_of_all(given, inputs)[0] is not None
                )
        if isinstance(targets, Tensor):
            self._aimed(targets)
        whole = x.requires_grad or self._stage.is_first
        self._report("F", microbatch, self._start, end, whole)
        if y.requires_grad:
            y.register_hook(self._on_gradient(microbatch))

    def _aimed(self, targets: Tensor) -> None:
        if targets.is_floating_point():
            return  # which are compared with nothing
        self.seen.aimed.append(tuple(map(int, targets.reshape(-1).tolist())))

    def _on_gradient(self, microbatch: int) -> Callable[[Tensor], None]:
        def begun(gradient: Tensor) -> None:
            action = CURRENT.get()
            kind = "B" if action is None else action.kind.value
            if kind == "W":  # once more through this node, for its weights
                return
            if not self._running:
                # Runs when this backward is over, on the thread that called it.
                torch.autograd.Variable._execution_engine.queue_callback(self._ended)
            self._running.append((kind if kind == "I" else "B", microbatch, self._now()))

        return begun

    def _ended(self) -> None:
        end = self._now()
        for place, (kind, microbatch, start) in enumerate(self._running):
            following = self._running[place + 1 :]
            self.seen.backwards.append(microbatch)
            if kind == "B":
                self.seen.weights.append(microbatch)
            self._report(kind, microbatch, start, following[0][2] if following else end)
        self._running.clear()

    @contextmanager
    def _input(self, microbatch: int) -> Iterator[None]:
        """Report an input gradient (I) for which autograd does nothing."""
        start = self._now()
        yield
        self.seen.backwards.append(microbatch)
        self._report("I", microbatch, start, self._now())

    @contextmanager
    def _weights(self, microbatch: int) -> Iterator[None]:
        """Report a weight gradient (W), computed in this block."""
        start = self._now()
        yield
        self.seen.weights.append(microbatch)
        self._report("W", microbatch, start, self._now())

    def _report(
        self, kind: str, microbatch: int, start: int, end: int, requires_grad: bool = True
    ) -> None:
        if self._reporter is not None:
            self._reporter.compute(self._stage.number, kind, microbatch, start, end, requires_grad)


Rows = tuple[int, ...]


def rows_of_all(given: Sequence[Any], inputs: Sequence[Tensor]) -> tuple[Rows | None, Rows]:
    """Tell which rows of the batch a forward's inputs are, and which of the inputs are not those.

    The rows are None where too few of the inputs are the batch's to tell.
    """
    if len(inputs) == 1:
        return rows_of(given[0], inputs[0]), ()
    pairs = enumerate(zip(given, inputs, strict=False))
    alike = {at: _equal(x, whole) for at, (x, whole) in pairs if _comparable(x, whole)}
    alike = {at: same for at, same in alike.items() if bool(same.any(dim=1).all())}
    rows = _common(list(alike.values()))
    for left_out in reversed(list(alike)):
        if rows is not None:
            break
        rows = _common([same for at, same in alike.items() if at != left_out])
        if rows is not None:
            del alike[left_out]
    return rows, tuple(at for at in range(len(inputs)) if at not in alike)


def _common(equal: Sequence[Tensor]) -> Rows | None:
    """Return the batch's row that each row is by all of these comparisons, None without one."""
    if not equal or len({same.shape for same in equal}) > 1:
        return None
    both = torch.stack(list(equal)).all(dim=0)
    if not bool(both.any(dim=1).all()):
        return None
    return tuple(int(row) for row in both.int().argmax(dim=1).tolist())


def rows_of(x: Tensor, inputs: Tensor) -> Rows | None:
    """Tell which rows of the batch ``x`` is; None when it is not made of them."""
    x, inputs = x.detach(), inputs.detach()
    if not _comparable(x, inputs):
        return None
    same_storage = x.untyped_storage().data_ptr() == inputs.untyped_storage().data_ptr()
    if same_storage and x.is_contiguous() and inputs.is_contiguous() and inputs[0].numel():
        start = (x.storage_offset() - inputs.storage_offset()) // inputs[0].numel()
        return tuple(range(start, start + len(x)))
    return _common([_equal(x, inputs)])


def _comparable(x: Any, inputs: Tensor) -> bool:
    if not isinstance(x, Tensor) or not x.dim() or not len(x):
        return False
    return x.shape[1:] == inputs.shape[1:] and x.dtype == inputs.dtype


def _equal(x: Tensor, inputs: Tensor) -> Tensor:
    """Compare each row of ``x`` with each of the batch, (rows, samples)."""
    x, inputs = x.detach(), inputs.detach()
    return (x[:, None] == inputs[None]).reshape(len(x), len(inputs), -1).all(dim=2)
