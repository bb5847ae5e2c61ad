"""A stage runs its forward under no_grad.

Does: The first stage runs its forward under torch.no_grad(), to save memory while it only passes
activations on.

Wrong: No graph is kept, so that there is nothing to run backward through when the gradient comes.

Shows: backward raises on that rank: its output does not require grad. The next rank is done by
then, or waits for this one.

Instead: Keep the graph; to save memory use checkpointing, which computes it again.
"""

import torch
from _parts import cut

LABEL = {
    "class": "graph",
    "scope": "step",
    "source": "the course: no_grad in the forward",
    "world": 2,
    "chunks": 1,
    "code": "rank-error",
    "ranks": [0],
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
            loss.backward()
        else:
            with torch.no_grad():
                y = stage(x)
            comms.send_forward(y)
            y.backward(comms.receive_backward(y.shape))  # fault: shows here
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
