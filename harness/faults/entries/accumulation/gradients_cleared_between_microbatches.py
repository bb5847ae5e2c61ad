"""Gradients are cleared after each microbatch.

Does: A GPipe step clears the gradients before each backward, as a training loop without
microbatches does before each batch.

Wrong: Accumulation is what makes microbatches one batch. Only the last microbatch's gradient is
left.

Shows: The loss looks fine and falls, on a chunks-th part of the data per step; on every rank the
gradient is that of the last microbatch alone.

Instead: Clear gradients once, before the step.
"""

from _parts import cut, forwards

LABEL = {
    "class": "accumulation",
    "scope": "step",
    "source": "Automodel#3530",
    "world": 1,
    "chunks": 2,
    "code": "gradient-mismatch",
    "cause": "missing-microbatch:0",
    "ranks": [0],
    "options": {"cases": 2},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total = 0.0
    for size, (x, y) in zip(sizes, forwards(stage, comms, sizes, inputs, targets), strict=True):
        stage.zero_grad()  # fault
        share = size / batch.size
        if stage.is_last:
            total += y.item() * share
            (y * share).backward()  # fault: the gradient starts anew here
        else:
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None


def correct(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total = 0.0
    for size, (x, y) in zip(sizes, forwards(stage, comms, sizes, inputs, targets), strict=True):
        share = size / batch.size
        if stage.is_last:
            total += y.item() * share
            (y * share).backward()
        else:
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None
