"""Gradients are clipped after every microbatch.

Does: A GPipe step clips the norm of its gradients inside the loop over the microbatches.

Wrong: Clipping is not linear: it cuts the sum so far, again and again, and by each stage's own
norm, where the norm of the whole batch's gradient is meant.

Shows: Early microbatches count less than late ones, by factors that differ from rank to rank. As
long as no norm exceeds the limit everything is right.

Instead: Clip once, after the last microbatch, by the norm over all ranks. The correct step leaves
that to whoever owns the optimizer.
"""

import torch
from _parts import cut, forwards

LABEL = {
    "class": "accumulation",
    "scope": "step",
    "source": "usual practice: clip_grad_norm_ copied into the microbatch loop",
    "world": 1,
    "chunks": 2,
    "code": "gradient-mismatch",
    "cause": "unknown",
    "ranks": [0],
    "options": {"cases": 2},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total = 0.0
    for size, (x, y) in zip(sizes, forwards(stage, comms, sizes, inputs, targets), strict=True):
        share = size / batch.size
        if stage.is_last:
            total += y.item() * share
            (y * share).backward()  # fault: shows here
        else:
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
        torch.nn.utils.clip_grad_norm_(stage.parameters(), 0.01)  # fault
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
