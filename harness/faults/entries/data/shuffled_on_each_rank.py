"""First and last rank shuffle the batch, each by its own random state.

Does: The first rank shuffles the inputs before it cuts them, the last rank the targets, each by a
generator of its own.

Wrong: The two permutations differ, because the generators are seeded by rank.

Shows: With one rank everything is right. With more, samples meet the targets of others; the loss
stays near that of guessing.

Instead: Seed both by the same number, or let one rank draw the permutation and send it.
"""

import torch
from _parts import cut

LABEL = {
    "class": "data",
    "scope": "step",
    "source": "the course (the same data on every rank); DeepSpeed#5729",
    "world": 2,
    "chunks": 2,
    "code": "gradient-mismatch",
    "cause": "permuted-targets",
    "ranks": [0, 1],
    "options": {"cases": 2},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    seed = 5 + stage.index  # fault
    order = torch.randperm(batch.size, generator=torch.Generator().manual_seed(seed))
    if stage.is_first:
        inputs = batch.inputs[order].split(sizes)
    if stage.is_last:
        targets = batch.targets[order].split(sizes)
    total = 0.0
    for size, x, target in zip(sizes, inputs, targets, strict=True):
        if not stage.is_first:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        if stage.is_last:
            y = stage(x, target)  # fault: shows here
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


def correct(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    seed = 5
    order = torch.randperm(batch.size, generator=torch.Generator().manual_seed(seed))
    if stage.is_first:
        inputs = batch.inputs[order].split(sizes)
    if stage.is_last:
        targets = batch.targets[order].split(sizes)
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
