"""A gradient buffer of the step's own is not cleared between steps.

Does: A step keeps its sums in a buffer beside each parameter, as mixed-precision training does, and
hands them to the optimizer at its end.

Wrong: The optimizer's zero_grad clears .grad and knows nothing of the buffer. From the second step
on the buffer still holds what earlier steps have added.

Shows: The first step is right. In every later one the gradient is the sum of all steps' so far.

Instead: Clear the buffer where the step begins.
"""

from _parts import cut, forwards

LABEL = {
    "class": "accumulation",
    "scope": "step",
    "source": "the course (gradients not cleared between steps); torch's main_grad convention",
    "world": 1,
    "chunks": 1,
    "code": "gradient-mismatch",
    "cause": "stale-accumulation",
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
        kept = getattr(parameter, "main_grad", 0)  # fault
        parameter.main_grad = kept + parameter.grad
        parameter.grad = parameter.main_grad.clone()
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
    for parameter in stage.parameters():
        kept = 0
        parameter.main_grad = kept + parameter.grad
        parameter.grad = parameter.main_grad.clone()
    return total if stage.is_last else None
