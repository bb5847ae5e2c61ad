"""One training step, right and with one fault at a time: what users write, and get wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness.parity.program import Step
from pipeline.model import chunk_sizes


@dataclass
class Plant:
    """A GPipe step whose parts can be replaced; as it stands it is right, uneven batches too."""

    weight: Callable[[int, int, int], float] = lambda size, batch, chunks: size / batch
    report: Callable[[int, int, int], float] = lambda size, batch, chunks: size / batch
    backwards: Callable[[int], list[int]] = lambda chunks: list(range(chunks))
    inputs: Callable[[list[Tensor]], list[Tensor]] = lambda inputs: inputs
    targets: Callable[[list[Tensor]], list[Tensor]] = lambda targets: targets
    received: Callable[[Tensor], Tensor] = lambda x: x.requires_grad_()
    outgoing: Callable[[Tensor], Tensor] = lambda gradient: gradient
    after: Callable[[Any, int, int], None] = lambda stage, position, chunks: None
    finish: Callable[[Any], None] = lambda stage: None

    def __call__(self, stage: Any, comms: Any, batch: Any, chunks: int) -> Tensor | None:
        sizes = chunk_sizes(batch.size, chunks)
        inputs = None if batch.inputs is None else self.inputs(list(batch.inputs.split(sizes)))
        targets = None if batch.targets is None else self.targets(list(batch.targets.split(sizes)))
        saved: list[tuple[Tensor, Tensor]] = []
        total = torch.zeros((), dtype=stage.dtype) if stage.is_last else None
        for k, size in enumerate(sizes):
            if inputs is not None:
                x = inputs[k]
            else:
                x = self.received(comms.receive_forward(stage.input_shape(size)))
            if targets is not None:
                y = stage(x, targets[k])
                assert total is not None
                total += y.detach() * self.report(size, batch.size, chunks)
            else:
                y = stage(x)
                comms.send_forward(y)
            saved.append((x, y))
        for position, k in enumerate(self.backwards(chunks)):
            x, y = saved[k]
            if stage.is_last:
                weight = self.weight(sizes[k], batch.size, chunks)
                (y * weight).backward(retain_graph=True)
            else:
                y.backward(comms.receive_backward(y.shape), retain_graph=True)
            if not stage.is_first:
                assert x.grad is not None or not x.requires_grad
                gradient = torch.zeros_like(x) if x.grad is None else x.grad
                x.grad = None
                comms.send_backward(self.outgoing(gradient))
            self.after(stage, position, chunks)
        self.finish(stage)
        return total


def right() -> Step:
    return Plant()


def not_divided() -> Step:
    return Plant(weight=lambda size, batch, chunks: 1.0)


def weighted_evenly() -> Step:
    return Plant(weight=lambda size, batch, chunks: 1 / chunks)


def scaled(factor: float) -> Step:
    return Plant(weight=lambda size, batch, chunks: factor * size / batch)


def in_order(order: Callable[[int], list[int]]) -> Step:
    """Whatever order is given: with one left out, or one twice, it is a fault."""
    return Plant(backwards=order)


def targets_reversed() -> Step:
    return Plant(targets=lambda targets: targets[::-1])


def targets_shuffled_inside() -> Step:
    def flip(targets: list[Tensor]) -> list[Tensor]:
        sizes = [len(t) for t in targets]
        return list(torch.cat(targets).flip(0).split(sizes))

    return Plant(targets=flip)


class _First:
    """What it was first called with, ever after."""

    def __init__(self) -> None:
        self._kept: list[Tensor] | None = None

    def __call__(self, given: list[Tensor]) -> list[Tensor]:
        if self._kept is None:
            self._kept = given
        return self._kept


def inputs_of_the_first_step() -> Step:
    return Plant(inputs=_First())


def targets_of_the_first_step() -> Step:
    return Plant(targets=_First())


def no_gradient_of_received() -> Step:
    return Plant(received=lambda x: x)


def zeroed_between() -> Step:
    def forget(stage: Any, position: int, chunks: int) -> None:
        if position < chunks - 1:
            for parameter in stage.parameters():
                parameter.grad = None

    return Plant(after=forget)


def kept_from_earlier() -> Step:
    kept: dict[int, list[Tensor]] = {}

    def add(stage: Any) -> None:
        now = [p.grad.clone() for p in stage.parameters()]
        for parameter, old in zip(stage.parameters(), kept.get(id(stage), now), strict=True):
            if id(stage) in kept:
                parameter.grad += old
        kept[id(stage)] = now

    return Plant(finish=add)


def loss_only_scaled() -> Step:
    return Plant(report=lambda size, batch, chunks: 1.0)


def update_inside() -> Step:
    @torch.no_grad()
    def decay(stage: Any) -> None:
        for parameter in stage.parameters():
            parameter *= 0.99

    return Plant(finish=decay)
