"""The step updates the parameters, and the optimizer does so again.

Does: After the last microbatch a step takes an update by plain gradient descent itself.

Wrong: The training loop around it owns an optimizer, whose own update follows.

Shows: Loss and gradients of the first step are right. The parameters after it are those of two
updates.

Instead: Let one of them update: the step only accumulates gradients.
"""

from _parts import cut, forwards

LABEL = {
    "class": "accumulation",
    "scope": "step",
    "source": "the harness's contract for steps",
    "world": 1,
    "chunks": 1,
    "code": "parameter-mismatch",
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
    for parameter in stage.parameters():
        parameter.data -= 0.1 * parameter.grad  # fault
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
