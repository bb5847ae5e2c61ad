"""The loss of the last microbatch is reported as the step's.

Does: After its loop a step returns the loss variable as the loop has left it.

Wrong: That is the last microbatch's part, not the sum over the batch.

Shows: Gradients are right. The reported loss is about a chunks-th of the batch's, or, unweighted,
merely noisier than it should be, which nobody notices.

Instead: Add the parts up.
"""

from _parts import cut

LABEL = {
    "class": "accumulation",
    "scope": "step",
    "source": "the course (reported loss); DeepSpeed#3900",
    "world": 1,
    "chunks": 2,
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
    return losses[-1] if stage.is_last else None  # fault


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
