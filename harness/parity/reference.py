"""What the monolith computes, microbatch by microbatch, at any values of its parameters.

A pipeline's stages do the same operations on the same shapes, so that a microbatch's gradient
here is bitwise what the ranks add up; only the order of adding is theirs. One step's gradient is
therefore kept as *columns*, one per microbatch, and every oracle and every cause is a sum of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from pipeline.model import Training, Whole, Workload, loss_weight

Rows = tuple[int, ...]
"""The samples of the batch that a microbatch is made of."""


@dataclass(frozen=True)
class Columns:
    """One step, split by microbatch: what each adds to the loss and to the gradient."""

    rows: tuple[Rows, ...]
    losses: Tensor
    """(microbatches,): mean loss of each, not weighted."""
    weights: Tensor
    """(microbatches,): each one's share of the batch."""
    gradients: Tensor
    """(microbatches, values): weighted, so that their sum is the whole batch's."""

    def accumulated(self, order: Sequence[int]) -> Tensor:
        """Add the gradients up as autograd does, one microbatch after the other."""
        total = self.gradients[order[0]].clone()
        for microbatch in order[1:]:
            total += self.gradients[microbatch]
        return total

    def loss(self, order: Sequence[int]) -> Tensor:
        """Add the weighted losses up in that order."""
        total = torch.zeros((), dtype=self.losses.dtype)
        for microbatch in order:
            total += self.losses[microbatch] * self.weights[microbatch]
        return total


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, as the ranks do: kernels split sums by the number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class Reference:
    """A model in one process, its parameters set to ``values`` (default: those it starts with)."""

    def __init__(self, workload: Training, values: Tensor | None = None) -> None:
        with one_thread():
            self._take(workload.whole(), workload)
        if values is not None:
            self.set(values)

    def _take(self, model: Whole, workload: Training) -> None:
        self.model = model
        self.workload = workload
        self.parameters = list(model.parameters())
        self._known: dict[tuple[Rows, ...], Columns] = {}

    def copy(self, dtype: torch.dtype) -> Reference:
        """Copy it in that dtype; cheaper than building it again."""
        twin = Reference.__new__(Reference)
        twin._take(self.model.copy(dtype), self.workload)
        return twin

    def at(self, values: Tensor, step: int = 0) -> Reference:
        """Return a copy with its parameters at ``values``, and the batch of that step."""
        twin = self.copy(self.workload.dtype)
        twin.set(values)
        if (data := self.workload.data_at(step)) is not None:
            twin.model.take(*data)
        return twin

    @property
    def sizes(self) -> list[int]:
        """How many values each parameter has, in order."""
        return [parameter.numel() for parameter in self.parameters]

    def values(self) -> Tensor:
        """Return every parameter, one after the other."""
        return torch.cat([p.detach().reshape(-1) for p in self.parameters])

    @torch.no_grad()
    def set(self, values: Tensor) -> None:
        """Set every parameter."""
        for parameter, part in zip(self.parameters, values.split(self.sizes), strict=True):
            parameter.copy_(part.view_as(parameter))

    def columns(self, rows: Sequence[Rows], targets: Sequence[Tensor] | None = None) -> Columns:
        """Run each microbatch alone; ``targets``, one tensor each, replace the batch's own."""
        losses, gradients, weights = [], [], []
        with one_thread():
            for place, chosen in enumerate(rows):
                given = None if targets is None else targets[place]
                loss, weight, gradient = self._microbatch(chosen, given)
                losses.append(loss)
                weights.append(weight)
                gradients.append(gradient)
        return Columns(
            tuple(rows), torch.stack(losses), torch.stack(weights), torch.stack(gradients)
        )

    def columns_once(self, rows: tuple[Rows, ...]) -> Columns:
        """Return the same, kept for the next time: the parameters must not change."""
        if rows not in self._known:
            self._known[rows] = self.columns(rows)
        return self._known[rows]

    def whole(self) -> tuple[Tensor, Tensor]:
        """Return the whole batch's loss and gradient (oracle 2)."""
        with one_thread():
            loss, _, gradient = self._microbatch(tuple(range(self.workload.batch)), None)
        return loss, gradient

    def _microbatch(self, rows: Rows, targets: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        loss = self.model.loss_of(samples(rows), targets)
        weight = loss_weight(loss, len(rows), self.workload.batch)
        return loss.detach(), weight, self.model.gradient(loss, weight, self.parameters)


def samples(rows: Rows) -> slice | list[int]:
    """Return what selects these rows: a view where they follow each other, as pipelines take it."""
    following = rows == tuple(range(rows[0], rows[0] + len(rows)))
    return slice(rows[0], rows[-1] + 1) if following else list(rows)


def step_at(
    workload: Training, values: Tensor, rows: tuple[Rows, ...], step: int = 0
) -> tuple[Reference, Columns]:
    """Return the monolith with its parameters at ``values`` and a step's batch, and the columns.

    The seed's own values come from a cache: every case's first step is at them.
    """
    start = initial(workload)
    if not step and torch.equal(start.values(), values):
        return start, start.columns_once(rows)
    reference = start.at(values, step)
    return reference, reference.columns(rows)


def initial(workload: Training) -> Reference:
    """Return the monolith as it starts; shared, so its parameters must not be changed."""
    if isinstance(workload, Workload):  # without what changes no gradient: cases share it
        return _initial(replace(workload, lr=0.0, optimizer="sgd"))
    return _initial_of_users(workload)


@lru_cache(maxsize=64)
def _initial(workload: Workload) -> Reference:
    return Reference(workload)


@lru_cache(maxsize=2)  # may be large
def _initial_of_users(workload: Training) -> Reference:
    return Reference(workload)
