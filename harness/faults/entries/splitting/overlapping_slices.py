"""Neighbouring microbatches share a sample.

Does: A step slices each microbatch with one sample more than its size, as if the end of a slice
were part of it.

Wrong: The end of a Python slice is excluded already. All microbatches but the last begin the next
one's samples too.

Shows: Nothing is raised where the receiver asks for the sender's size. Samples at the borders count
twice, so that loss and gradients are off a little.

Instead: inputs[start : start + size].
"""

from _parts import cut

LABEL = {
    "class": "splitting",
    "scope": "step",
    "source": "TrainVerify (wrong data to a microbatch)",
    "world": 1,
    "chunks": 2,
    "code": "gradient-mismatch",
    "cause": "unknown",
    "ranks": [0],
    "options": {"cases": 2},
}


def faulty(stage, comms, batch, chunks):
    sizes, _, _ = cut(stage, batch, chunks)
    total, start = 0.0, 0
    for size in sizes:
        stop = min(start + size + 1, batch.size)  # fault
        n = stop - start
        if stage.is_first:
            x = batch.inputs[start:stop]
        else:
            x = comms.receive_forward(stage.input_shape(n)).requires_grad_()
        if stage.is_last:
            loss = stage(x, batch.targets[start:stop]) * (size / batch.size)
            total += loss.item()
            loss.backward()  # fault: shows here
        else:
            y = stage(x)
            comms.send_forward(y)
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
        start += size
    return total if stage.is_last else None


def correct(stage, comms, batch, chunks):
    sizes, _, _ = cut(stage, batch, chunks)
    total, start = 0.0, 0
    for size in sizes:
        stop = start + size
        n = stop - start
        if stage.is_first:
            x = batch.inputs[start:stop]
        else:
            x = comms.receive_forward(stage.input_shape(n)).requires_grad_()
        if stage.is_last:
            loss = stage(x, batch.targets[start:stop]) * (size / batch.size)
            total += loss.item()
            loss.backward()
        else:
            y = stage(x)
            comms.send_forward(y)
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
        start += size
    return total if stage.is_last else None
