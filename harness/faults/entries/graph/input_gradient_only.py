"""Only the input's gradient is computed; the weights' part never follows.

Does: The last stage computes the input's gradient alone, so that the rank before gets it early. The
weights' part was to come later, when the rank would be idle.

Wrong: It never comes: what autograd.grad does not list it does not compute.

Shows: All stages below are right. The last stage has no gradient of its own and stays as it was;
the loss still falls, by the others.

Instead: Keep the graph and run the weights' part as well, or call backward, which does both.
"""

import torch
from _parts import cut

LABEL = {
    "class": "graph",
    "scope": "step",
    "source": "zero-bubble#72; pytorch#139415 (split backward)",
    "world": 2,
    "chunks": 1,
    "code": "gradient-mismatch",
    "cause": "missing-microbatch:0",
    "ranks": [1],
    "options": {"cases": 2},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total = 0.0
    for size, x, target in zip(sizes, inputs, targets, strict=True):
        if not stage.is_first:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        if stage.is_last:
            y = stage(x, target)
            loss = y * (size / batch.size)
            total += loss.item()
            (x.grad,) = torch.autograd.grad(loss, [x])  # fault
        else:
            y = stage(x)
            comms.send_forward(y)
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
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
            comms.send_backward(x.grad)
    return total if stage.is_last else None
