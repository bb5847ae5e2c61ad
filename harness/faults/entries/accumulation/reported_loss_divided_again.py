"""The reported loss is divided by chunks once more than the gradients are.

Does: Each microbatch's loss is weighted by its share of the batch before its backward. At the end
the sum is divided by the number of microbatches.

Wrong: The sum of weighted losses is the mean already.

Shows: Gradients are right; the reported loss is chunks times too small, and curves of runs with
different chunks cannot be compared.

Instead: Return the sum of what went backward.
"""

from _parts import cut

LABEL = {
    "class": "accumulation",
    "scope": "step",
    "source": "torchtitan#2972, #4194 (reported loss and gradients scaled differently)",
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
    return sum(losses) / chunks if stage.is_last else None  # fault


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
