"""Microbatches of unequal size are weighted alike.

Does: A step cuts a batch that chunks does not divide into uneven microbatches, and divides each
one's mean loss by chunks.

Wrong: The mean of means is not the mean: a sample in a small microbatch counts more than one in a
large.

Shows: Right for every batch that chunks divides. Else loss and gradients are slightly off, by more
the more uneven the sizes are.

Instead: Weight each mean by size / batch.size.
"""

from _parts import cut

LABEL = {
    "class": "splitting",
    "scope": "step",
    "source": "pytorch#126600; torch.distributed.pipelining with a batch of 8 in 3",
    "world": 1,
    "chunks": 2,
    "code": "gradient-mismatch",
    "cause": "unknown",
    "ranks": [0],
    "options": {"cases": 3},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total = 0.0
    for size, x, target in zip(sizes, inputs, targets, strict=True):
        if not stage.is_first:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        if stage.is_last:
            y = stage(x, target)
            loss = y / chunks  # fault
            total += loss.item()
            loss.backward()  # fault: shows here
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
