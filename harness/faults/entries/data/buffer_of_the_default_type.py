"""The receive buffer has torch's default type.

Does: The second stage makes its receive buffer with torch.empty(shape).

Wrong: That is float32. The model, and what is sent, is float64.

Shows: gloo moves bytes: what does not fit the buffer aborts the process. With a model in float32
all is well.

Instead: Give the buffer the sender's dtype.
"""

import torch
import torch.distributed as dist
from _parts import cut

LABEL = {
    "class": "data",
    "scope": "step",
    "source": "pytorch#113376; nccl#1938",
    "world": 2,
    "chunks": 1,
    "code": "dtype-mismatch",
    "ranks": [0, 1],
    "options": {"cases": 1},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total = 0.0
    for size, x, target in zip(sizes, inputs, targets, strict=True):
        if not stage.is_first:
            x = torch.empty(stage.input_shape(size))
            dist.recv(x, comms.previous_rank)  # fault
            x.requires_grad_()
        if stage.is_last:
            y = stage(x, target)
            loss = y * (size / batch.size)
            total += loss.item()
            loss.backward()
        else:
            y = stage(x)
            dist.send(y.detach(), comms.next_rank)  # fault: meets that receive
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
            x.requires_grad_()
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
