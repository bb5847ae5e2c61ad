"""Weights are updated between two microbatches.

Does: A step applies a small update of its own after each microbatch's backward.

Wrong: Later microbatches meet other weights than earlier ones, and the backward of one meets other
weights than its forward did: this is asynchronous training, not one step on a batch.

Shows: The gradients of all microbatches but the first are taken at other weights than the batch's;
here already those of the first backward's lower layers, so that no sum of right gradients explains
them.

Instead: Leave parameters alone in the step: update once, after the last microbatch.
"""

from _parts import cut

LABEL = {
    "class": "accumulation",
    "scope": "step",
    "source": "PipeDream's asynchronous mode, meant to be synchronous",
    "world": 1,
    "chunks": 2,
    "code": "gradient-mismatch",
    "cause": "unknown",
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
            loss = stage(x, target) * (size / batch.size)
            total += loss.item()
            loss.backward()  # fault: shows here
        else:
            y = stage(x)
            comms.send_forward(y)
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
        for parameter in stage.parameters():
            parameter.data -= 0.1 * parameter.grad  # fault
    return total if stage.is_last else None


def correct(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total = 0.0
    for size, x, target in zip(sizes, inputs, targets, strict=True):
        if not stage.is_first:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        if stage.is_last:
            loss = stage(x, target) * (size / batch.size)
            total += loss.item()
            loss.backward()
        else:
            y = stage(x)
            comms.send_forward(y)
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None
