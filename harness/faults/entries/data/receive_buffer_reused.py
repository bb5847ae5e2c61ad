"""One buffer receives the activations of all microbatches.

Does: All forwards come first. The last stage receives each activation into the same buffer and runs
its forward on it.

Wrong: The buffer is what the first layer has saved for its backward. By then it holds the last
microbatch.

Shows: The forward is right, and with it the loss and what is sent back. Only the gradient of the
stage's first weight is wrong: it is made of the last activation every time. Autograd does not
notice a change that a receive makes.

Instead: A buffer for each microbatch in flight.
"""

import torch
import torch.distributed as dist
from _parts import cut

LABEL = {
    "class": "data",
    "scope": "step",
    "source": "pytorch#185331",
    "world": 2,
    "chunks": 2,
    "code": "gradient-mismatch",
    "cause": "unknown",
    "ranks": [1],
    "options": {"cases": 2},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    buffer = torch.empty(stage.input_shape(sizes[0]), dtype=stage.dtype)  # fault
    saved, total = [], 0.0
    for size, x, target in zip(sizes, inputs, targets, strict=True):
        if not stage.is_first:
            dist.recv(buffer, comms.previous_rank)
            x = buffer.detach().requires_grad_()
        y = stage(x, target) if stage.is_last else stage(x)
        if not stage.is_last:
            comms.send_forward(y)
        saved.append((x, y))
    for size, (x, y) in zip(sizes, saved, strict=True):
        if stage.is_last:
            loss = y * (size / batch.size)
            total += loss.item()
            loss.backward()  # fault: shows here
        else:
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None


def correct(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    saved, total = [], 0.0
    for size, x, target in zip(sizes, inputs, targets, strict=True):
        if not stage.is_first:
            buffer = torch.empty(stage.input_shape(size), dtype=stage.dtype)
            dist.recv(buffer, comms.previous_rank)
            x = buffer.detach().requires_grad_()
        y = stage(x, target) if stage.is_last else stage(x)
        if not stage.is_last:
            comms.send_forward(y)
        saved.append((x, y))
    for size, (x, y) in zip(sizes, saved, strict=True):
        if stage.is_last:
            loss = y * (size / batch.size)
            total += loss.item()
            loss.backward()
        else:
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None
