"""A step returns the list of its microbatches' losses.

Does: The last stage returns all losses, so that its caller may add them up.

Wrong: The caller expects the step's mean loss, one number. A list that happens to be averaged
weights all microbatches alike.

Shows: Whatever the caller does with a list; here it is refused.

Instead: Return the weighted sum.
"""

from _parts import cut

LABEL = {
    "class": "accumulation",
    "scope": "step",
    "source": "the harness's contract for steps; torch's pipelining returns losses by a list",
    "world": 1,
    "chunks": 1,
    "code": "loss-mismatch",
    "ranks": [0],
    "options": {"cases": 2},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    losses = []
    for size, x, target in zip(sizes, inputs, targets, strict=True):
        if not stage.is_first:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        if stage.is_last:
            loss = stage(x, target) * (size / batch.size)  # fault: computed here
            losses.append(loss.item())
            loss.backward()
        else:
            y = stage(x)
            comms.send_forward(y)
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return losses if stage.is_last else None  # fault


def correct(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    losses = []
    for size, x, target in zip(sizes, inputs, targets, strict=True):
        if not stage.is_first:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        if stage.is_last:
            loss = stage(x, target) * (size / batch.size)
            losses.append(loss.item())
            loss.backward()
        else:
            y = stage(x)
            comms.send_forward(y)
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return sum(losses) if stage.is_last else None
