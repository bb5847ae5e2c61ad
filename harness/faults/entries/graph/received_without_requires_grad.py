"""A received activation does not require grad.

Does: The second stage receives its input and runs its forward and backward.

Wrong: What receive returns is a plain tensor. Autograd has no reason to compute its gradient, so
that there is none to send back.

Shows: x.grad is None when it is to be sent. Where that is caught, or zeros go out in its place, the
stages before simply never learn.

Instead: Call requires_grad_() on the received tensor before stage(x).
"""

from _parts import cut

LABEL = {
    "class": "graph",
    "scope": "step",
    "source": "PiPPy#1029; the course (requires_grad of what is received)",
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
            x = comms.receive_forward(stage.input_shape(size))
        if stage.is_last:
            y = stage(x, target)  # fault
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
