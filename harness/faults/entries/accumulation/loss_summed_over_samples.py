"""The loss is summed over the samples where a mean is meant.

Does: To weight microbatches by their size, a GPipe step multiplies each mean loss by the number of
its samples before backward.

Wrong: It never divides by the size of the batch: this is the gradient of the sum over all samples.

Shows: Every gradient is as many times too large as the batch has samples, whatever the number of
microbatches; a learning rate found with one batch size does not fit another.

Instead: Divide by the batch's size as well: (loss * size / batch.size).backward().
"""

from _parts import cut, forwards

LABEL = {
    "class": "accumulation",
    "scope": "step",
    "source": "the course (sum for mean); TrainVerify (inconsistent scaling)",
    "world": 1,
    "chunks": 2,
    "code": "gradient-mismatch",
    "cause": "scale:2",
    "ranks": [0],
    "options": {"cases": 2},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total = 0.0
    for size, (x, y) in zip(sizes, forwards(stage, comms, sizes, inputs, targets), strict=True):
        share = size / batch.size
        if stage.is_last:
            total += y.item() * share
            (y * size).backward()  # fault
        else:
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None


def correct(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total = 0.0
    for size, (x, y) in zip(sizes, forwards(stage, comms, sizes, inputs, targets), strict=True):
        share = size / batch.size
        if stage.is_last:
            total += y.item() * share
            (y * share).backward()
        else:
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None
