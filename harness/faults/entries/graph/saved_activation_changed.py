"""A saved activation is overwritten before its backward.

Does: Once the received activation has gone through the last stage its memory is cleared for the
next one, by .data, which autograd does not see.

Wrong: The first layer has saved this tensor, not a copy: its weight's gradient is computed from
what is in it now.

Shows: No error, because .data leaves the version counter alone. The gradient of the stage's first
weight is zero, all others and all other stages are right.

Instead: Leave what goes into a stage alone until its backward is over; without .data autograd
raises at least.
"""

from _parts import cut

LABEL = {
    "class": "graph",
    "scope": "step",
    "source": "pytorch#185331 (a buffer reused while it is a saved activation)",
    "world": 2,
    "chunks": 1,
    "code": "gradient-mismatch",
    "cause": "unknown",
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
            x.data.zero_()  # fault
            loss = y * (size / batch.size)
            total += loss.item()
            loss.backward()  # fault: shows here
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
