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
from torch.nn import functional as F

from pipeline.model import Monolith, Workload, copy_module, loss_weight

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
    """The monolith of a workload, its parameters set to ``values`` (default: the seed's)."""

    def __init__(self, workload: Workload, values: Tensor | None = None) -> None:
        with one_thread():
            self.model = Monolith(workload)
        self.workload = workload
        self.parameters = list(self.model.parameters())
        if values is not None:
            self.set(values)

    def at(self, values: Tensor) -> Reference:
        """Return a copy with its parameters at ``values``; cheaper than building the seed again."""
        copy = Reference.__new__(Reference)
        copy.model = copy_module(self.model)
        copy.workload = self.workload
        copy.parameters = list(copy.model.parameters())
        copy.set(values)
        return copy

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
        parts = values.to(self.workload.dtype).split(self.sizes)
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.copy_(part.view_as(parameter))

    def columns(self, rows: Sequence[Rows], targets: Sequence[Rows] | None = None) -> Columns:
        """Run each microbatch alone; ``targets`` (class indices) replace the batch's own."""
        losses, gradients, weights = [], [], []
        with one_thread():
            for place, chosen in enumerate(rows):
                given = None if targets is None else torch.tensor(targets[place])
                loss, weight, gradient = self._microbatch(chosen, given)
                losses.append(loss)
                weights.append(weight)
                gradients.append(gradient)
        return Columns(
            tuple(rows), torch.stack(losses), torch.stack(weights), torch.stack(gradients)
        )

    def whole(self) -> tuple[Tensor, Tensor]:
        """Return the whole batch's loss and gradient (oracle 2)."""
        with one_thread():
            loss, _, gradient = self._microbatch(tuple(range(self.workload.batch)), None)
        return loss, gradient

    def _microbatch(self, rows: Rows, targets: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        model = self.model
        if rows == tuple(range(rows[0], rows[0] + len(rows))):  # a view, as the pipeline takes it
            inputs, own = (t[rows[0] : rows[-1] + 1] for t in (model.inputs, model.targets))
        else:
            inputs, own = model.inputs[list(rows)], model.targets[list(rows)]
        loss = F.cross_entropy(model(inputs), own if targets is None else targets)
        weight = loss_weight(loss, len(rows), self.workload.batch)
        gradients = torch.autograd.grad(loss, self.parameters, weight)
        return loss.detach(), weight, torch.cat([g.reshape(-1) for g in gradients])


def step_at(
    workload: Workload, values: Tensor, rows: tuple[Rows, ...]
) -> tuple[Reference, Columns]:
    """Return the monolith with its parameters at ``values``, and the columns there.

    The seed's own values come from a cache: every case's first step is at them.
    """
    plain = gradient_only(workload)
    start = initial(plain)
    if torch.equal(start.values(), values):
        return start, _initial_columns(plain, rows)
    reference = start.at(values)
    return reference, reference.columns(rows)


def gradient_only(workload: Workload) -> Workload:
    """Return the workload without what changes no gradient, so that cases share references."""
    return replace(workload, lr=0.0, optimizer="sgd")


@lru_cache(maxsize=64)
def initial(workload: Workload) -> Reference:
    """Return the monolith as it starts; shared, so its parameters must not be changed."""
    return Reference(workload)


@lru_cache(maxsize=128)
def _initial_columns(workload: Workload, rows: tuple[Rows, ...]) -> Columns:
    return initial(workload).columns(rows)
