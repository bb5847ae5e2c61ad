"""The received activation is detached on its way into the stage.

Does: The step marks the received tensor with requires_grad_(), and gives a detached copy of it to
the stage, to be safe.

Wrong: The copy is another leaf: the gradient ends there, and the tensor that was marked never gets
one.

Shows: x.grad is None when it is to be sent back. Stages before this one get nothing.

Instead: Give the stage the very tensor whose gradient is wanted.
"""

from _parts import cut

LABEL = {
    "class": "graph",
    "scope": "step",
    "source": "the course: detach() between stages",
    "world": 2,
    "chunks": 1,
    "code": "gradient-mismatch",
    "cause": "graph-cut:stage 0",
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
            y = stage(x.detach(), target)  # fault
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
