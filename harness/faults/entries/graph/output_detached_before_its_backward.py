"""The output is saved detached, as a leaf of its own.

Does: To send and save the same tensor the first stage detaches its output, and makes that require
grad again so that backward may be called on it.

Wrong: The backward ends at once in the new leaf: the stage's own graph hangs on the tensor that was
let go.

Shows: The gradient arrives and goes nowhere. The last stage learns, the first has no gradient at
all.

Instead: Send a detached tensor, save the one with the graph.
"""

from _parts import cut

LABEL = {
    "class": "graph",
    "scope": "step",
    "source": "TrainVerify (backward reads the wrong tensor); the course (detach)",
    "world": 2,
    "chunks": 1,
    "code": "gradient-mismatch",
    "cause": "graph-cut:stage 0",
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
            y = stage(x).detach().requires_grad_()  # fault
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
