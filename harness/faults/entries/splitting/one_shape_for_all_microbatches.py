"""The receiver takes all microbatches to be as large as the first.

Does: The last stage asks for activations of the first microbatch's size each time.

Wrong: Where chunks does not divide the batch, later microbatches are smaller.

Shows: gloo fills the larger buffer in part and leaves the rest as it was: here the targets then do
not fit, elsewhere old values are trained on. Right for even batches.

Instead: Derive each microbatch's shape from its own size, on both sides by the same function.
"""

from _parts import cut

LABEL = {
    "class": "splitting",
    "scope": "step",
    "source": "DeepSpeed#5696; pytorch#113376, nccl#1938",
    "world": 2,
    "chunks": 2,
    "code": "shape-mismatch",
    "ranks": [0, 1],
    "options": {"cases": 3},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total = 0.0
    for size, x, target in zip(sizes, inputs, targets, strict=True):
        if not stage.is_first:
            x = comms.receive_forward(stage.input_shape(sizes[0])).requires_grad_()  # fault
        if stage.is_last:
            y = stage(x, target)
            loss = y * (size / batch.size)
            total += loss.item()
            loss.backward()
        else:
            y = stage(x)
            comms.send_forward(y)  # fault: meets that receive
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
