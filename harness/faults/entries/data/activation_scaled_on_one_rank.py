"""One rank scales the activation that it sends.

Does: The first stage halves its output before it sends it, left over from a trial with half
precision.

Wrong: The stages behind compute on another activation than the model's, and the gradient that comes
back is of that one.

Shows: Nothing is raised, and the loss falls: it is another model. Loss and all gradients are wrong,
so that the place where it began is not the one where it shows first.

Instead: Send the stage's output as it is; scale the loss where gradients would underflow.
"""

from _parts import cut

LABEL = {
    "class": "data",
    "scope": "step",
    "source": "TrainVerify (mutated compute on one rank)",
    "world": 2,
    "chunks": 1,
    "code": "gradient-mismatch",
    "cause": "unknown",
    "ranks": [0, 1],
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
            loss.backward()  # fault: shows here
        else:
            y = stage(x)
            comms.send_forward(y / 2)  # fault
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
