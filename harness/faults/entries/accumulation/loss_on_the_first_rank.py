"""The loss is returned on the first rank, where it is not known.

Does: A step returns its loss where logs are usually written, on rank 0.

Wrong: Only the last stage computes a loss. Rank 0 has the initial zero, and the last rank returns
nothing.

Shows: Training is right; what is printed is 0, or whatever rank 0 has in the variable.

Instead: Return it on the last stage's rank, or send it to rank 0.
"""

from _parts import cut

LABEL = {
    "class": "accumulation",
    "scope": "step",
    "source": "the course's code prints the loss on the wrong rank",
    "world": 2,
    "chunks": 1,
    "code": "loss-mismatch",
    "ranks": [1],
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
    return sum(losses) if stage.is_first else None  # fault


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
