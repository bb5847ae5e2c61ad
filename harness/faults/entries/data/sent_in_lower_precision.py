"""Activations travel in float32, whatever the model computes in.

Does: To halve the traffic the first stage sends its activations as float32; the next casts what it
receives to its own type.

Wrong: In a float64 model half of the digits are lost on the way.

Shows: Nothing in float32. In float64 loss and gradients differ from the eighth digit on: too little
to see, and enough to hide every smaller fault from a comparison.

Instead: Send in the model's type, or compare with the bound of the type that was sent.
"""

import torch
import torch.distributed as dist
from _parts import cut

LABEL = {
    "class": "data",
    "scope": "step",
    "source": "pytorch#113376 (types of send and receive)",
    "world": 2,
    "chunks": 1,
    "code": "gradient-mismatch",
    "cause": "unknown",
    "ranks": [0, 1],
    "options": {"cases": 2},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total = 0.0
    for size, x, target in zip(sizes, inputs, targets, strict=True):
        if not stage.is_first:
            x = torch.empty(stage.input_shape(size), dtype=torch.float32)
            dist.recv(x, comms.previous_rank)
            x = x.to(stage.dtype).requires_grad_()
        if stage.is_last:
            y = stage(x, target)
            loss = y * (size / batch.size)
            total += loss.item()
            loss.backward()  # fault: shows here
        else:
            y = stage(x)
            dist.send(y.detach().to(torch.float32), comms.next_rank)  # fault
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None


def correct(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total = 0.0
    for size, x, target in zip(sizes, inputs, targets, strict=True):
        if not stage.is_first:
            x = torch.empty(stage.input_shape(size), dtype=stage.dtype)
            dist.recv(x, comms.previous_rank)
            x = x.requires_grad_()
        if stage.is_last:
            y = stage(x, target)
            loss = y * (size / batch.size)
            total += loss.item()
            loss.backward()
        else:
            y = stage(x)
            dist.send(y.detach(), comms.next_rank)
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None
