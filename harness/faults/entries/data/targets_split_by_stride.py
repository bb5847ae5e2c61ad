"""Targets are split by stride, inputs by block.

Does: The first stage cuts the batch into consecutive blocks. The last stage takes every chunks-th
target.

Wrong: Both are ways to split a batch; together they pair samples with the targets of others.

Shows: Sizes agree, nothing is raised, the loss is plausible. The gradient is that of other targets.

Instead: Split inputs and targets with one function.
"""

from _parts import cut

LABEL = {
    "class": "data",
    "scope": "step",
    "source": "pytorch#148458 (inputs and targets split differently); PiPPy#192",
    "world": 1,
    "chunks": 2,
    "code": "gradient-mismatch",
    "cause": "permuted-targets",
    "ranks": [0],
    "options": {"cases": 3},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    if stage.is_last:
        targets = [batch.targets[index::chunks] for index in range(chunks)]  # fault
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
    if stage.is_last:
        targets = batch.targets.split(sizes)
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
