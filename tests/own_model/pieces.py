"""A plain user's model, its data and a step, for the Python functions: each to be replaced."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

WIDE, CLASSES = 6, 4


def model() -> nn.Module:
    layers = [nn.Sequential(nn.Linear(WIDE, WIDE), nn.Tanh()) for _ in range(4)]
    return nn.Sequential(*layers, nn.Linear(WIDE, CLASSES))


def data(batch: int) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, WIDE), torch.randint(CLASSES, (batch,))


def step(stage: Any, comms: Any, batch: Any, chunks: int) -> Tensor | None:
    total = torch.zeros((), dtype=stage.dtype)
    for rows in torch.arange(batch.size).tensor_split(chunks):
        if stage.is_first:
            x = batch.inputs[rows]
        else:
            x = comms.receive_forward(stage.input_shape(len(rows))).requires_grad_()
        if stage.is_last:
            y = stage(x, batch.targets[rows]) * (len(rows) / batch.size)
            y.backward()
            total += y.detach()
        else:
            y = stage(x)
            comms.send_forward(y)
            y.backward(comms.receive_backward(stage.output_shape(len(rows))))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None
