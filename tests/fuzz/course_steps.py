"""1F1B as the course writes it, once right and once with each of its faults."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def one_f_one_b(
    stage: Any, comms: Any, batch: Any, chunks: int, *, blocking: bool = False, divide: bool = True
) -> float | None:
    if batch.size % chunks:
        raise ValueError(f"{batch.size} samples do not divide into {chunks} chunks")
    size = batch.size // chunks
    inputs = batch.inputs.chunk(chunks) if stage.is_first else None
    targets = batch.targets.chunk(chunks) if stage.is_last else None
    saved: list[Any] = []
    works: list[Any] = []
    total = 0.0

    def forward(k: int) -> None:
        if inputs is not None:
            x = inputs[k]
        else:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        y = stage(x) if targets is None else stage(x, targets[k])
        if targets is None and blocking:
            comms.send_forward(y)
        elif targets is None:
            works.append(comms.isend_forward(y))
        saved.append((x, y))

    def backward() -> None:
        nonlocal total
        x, y = saved.pop(0)
        if stage.is_last:
            total += y.item() / chunks
            (y / chunks if divide else y).backward()
        else:
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)

    warmup = min(chunks, stage.count - stage.index - 1)
    for k in range(warmup):
        forward(k)
    for k in range(warmup, chunks):
        forward(k)
        backward()
    while saved:
        backward()
    for work in works:
        work.wait()
    return total if stage.is_last else None


def right(stage: Any, comms: Any, batch: Any, chunks: int) -> float | None:
    return one_f_one_b(stage, comms, batch, chunks)


def blocking_sends(stage: Any, comms: Any, batch: Any, chunks: int) -> float | None:
    return one_f_one_b(stage, comms, batch, chunks, blocking=True)


def not_divided(stage: Any, comms: Any, batch: Any, chunks: int) -> float | None:
    return one_f_one_b(stage, comms, batch, chunks, divide=False)


def received_without_grad(stage: Any, comms: Any, batch: Any, chunks: int) -> None:
    inputs = (
        batch.inputs if stage.is_first else comms.receive_forward(stage.input_shape(batch.size))
    )
    if stage.is_last:
        stage(inputs, batch.targets).backward()
    else:
        y = stage(inputs)
        comms.send_forward(y)
        y.backward(comms.receive_backward(y.shape))
    if not stage.is_first:
        comms.send_backward(inputs.grad)


def always_refuses(stage: Any, comms: Any, batch: Any, chunks: int) -> None:
    raise ValueError("not today")


def _layers(count: int, width: int, head: bool) -> nn.Module:
    blocks: list[nn.Module] = []
    for _ in range(count):
        blocks += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*blocks, *([nn.Linear(width, 2)] if head else []))


def whole_model_sliced(index: int, count: int, layers: int, width: int) -> nn.Module:
    model = list(_layers(layers, width, head=True))  # type: ignore[call-overload]
    ends = [2 * (layers * k // count) for k in range(count)] + [len(model)]
    return nn.Sequential(*model[ends[index] : ends[index + 1]])


def state_skipped_by_count(index: int, count: int, layers: int, width: int) -> nn.Module:
    for _ in range(index * (layers // count) * 2):
        torch.rand(1)
    mine = layers // count + (layers % count if index == count - 1 else 0)
    return _layers(mine, width, head=index == count - 1)


def remainder_lost(index: int, count: int, layers: int, width: int) -> nn.Module:
    return _layers(layers // count, width, head=index == count - 1)
