"""The loss is divided by the number of microbatches twice.

Does: The loss function of a GPipe step divides by chunks, and so does the schedule around it.

Wrong: Each of the two believes that the other does not. The gradients are those of the batch
divided by chunks once more.

Shows: Gradients are chunks times too small on every rank. With Adam nothing is to be seen; with SGD
the model learns more slowly, as by a smaller learning rate.

Instead: Divide in one place only, and let that place be the one that calls backward.
"""

from _parts import cut, forwards

LABEL = {
    "class": "accumulation",
    "scope": "step",
    "source": "the course (loss scaling); TrainVerify (inconsistent scaling)",
    "world": 1,
    "chunks": 2,
    "code": "gradient-mismatch",
    "cause": "scale:0.5",
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
            (y * share / chunks).backward()  # fault
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
