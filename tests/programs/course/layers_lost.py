"""Each rank takes layers // count of the layers: 16 layers on 3 ranks are 15."""

import torch
from torch import nn


class Part(nn.Module):
    def __init__(self, count, width, is_last):
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(count))
        )
        self.head = nn.Linear(width, 2) if is_last else nn.Identity()

    def forward(self, x):
        return self.head(self.layers(x))


def build_stage(index, count, layers, width):
    everything = [Part(1, width, False) for _ in range(layers)]
    share = layers // count
    part = Part(0, width, index == count - 1)
    part.layers = nn.Sequential(*everything[index * share : (index + 1) * share])
    return part


def step(stage, comms, batch, chunks):
    if batch.size % chunks:
        raise ValueError(f"batch {batch.size} is not divisible by chunks {chunks}")
    size = batch.size // chunks
    inputs = batch.inputs.chunk(chunks) if stage.is_first else None
    targets = batch.targets.chunk(chunks) if stage.is_last else None
    received, outputs = [], []
    for index in range(chunks):
        if stage.is_first:
            x = inputs[index]
        else:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        received.append(x)
        y = stage(x, targets[index]) if stage.is_last else stage(x)
        outputs.append(y)
        if not stage.is_last:
            comms.send_forward(y)
    total = torch.zeros((), dtype=stage.dtype, device=stage.device)
    for x, y in zip(received, outputs, strict=True):
        if stage.is_last:
            (y / chunks).backward()
            total += y.detach() / chunks
        else:
            y.backward(comms.receive_backward(stage.output_shape(size)))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None
