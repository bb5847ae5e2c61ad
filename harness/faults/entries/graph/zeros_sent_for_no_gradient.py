"""Zeros are sent back where there is no gradient.

Does: A pipeline may have inputs that get no gradient. For these the step sends zeros, so that the
rank before does not wait for ever.

Wrong: The received activation does not require grad, so that this is the case for every microbatch:
the zeros hide it.

Shows: Nothing is raised, the last stage trains and the loss falls. All stages below have gradients
of exactly zero.

Instead: Call requires_grad_() on what is received, and let a missing gradient be an error.
"""

import torch
from _parts import cut

LABEL = {
    "class": "graph",
    "scope": "step",
    "source": "pytorch 2.14.1, by reading (zeros for None); pytorch#152827; PiPPy#1029",
    "world": 2,
    "chunks": 1,
    "code": "gradient-mismatch",
    "cause": "graph-cut:stage 0",
    "ranks": [0],
    "options": {"cases": 2},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total = 0.0
    for size, x, target in zip(sizes, inputs, targets, strict=True):
        if not stage.is_first:
            x = comms.receive_forward(stage.input_shape(size))
        if stage.is_last:
            y = stage(x, target)  # fault
            loss = y * (size / batch.size)
            total += loss.item()
            loss.backward()
        else:
            y = stage(x)
            comms.send_forward(y)
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(torch.zeros_like(x) if x.grad is None else x.grad)
    return total if stage.is_last else None


def correct(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total = 0.0
    for size, x, target in zip(sizes, inputs, targets, strict=True):
        if not stage.is_first:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        if stage.is_last:
            y = stage(x, target)
            loss = y * (size / batch.size)
            total += loss.item()
            loss.backward()
        else:
            y = stage(x)
            comms.send_forward(y)
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(torch.zeros_like(x) if x.grad is None else x.grad)
    return total if stage.is_last else None
