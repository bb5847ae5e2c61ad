"""The loop over the backwards ends one too early.

Does: Every rank runs the forwards of all microbatches and then the backwards, up to chunks - 1
excluded.

Wrong: The bound is off by one, and on every rank alike: no rank waits for a message that is not
sent, and the last microbatch has no backward.

Shows: Nothing hangs and the loss is right. The gradient lacks the last microbatch.

Instead: Loop over range(chunks).
"""

from _parts import cut, forwards

LABEL = {
    "class": "accumulation",
    "scope": "step",
    "source": "TrainVerify (microbatch dropped); pytorch#139415 (last backward miscounted)",
    "world": 1,
    "chunks": 2,
    "code": "gradient-mismatch",
    "cause": "missing-microbatch:1",
    "ranks": [0],
    "options": {"cases": 2},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    saved = forwards(stage, comms, sizes, inputs, targets)
    total = 0.0
    for index in range(chunks - 1):  # fault
        x, y = saved[index]
        if stage.is_last:
            (y * sizes[index] / batch.size).backward()  # fault: shows here
        else:
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    if stage.is_last:
        for size, (_, y) in zip(sizes, saved, strict=True):
            total += y.item() * size / batch.size
    return total


def correct(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    saved = forwards(stage, comms, sizes, inputs, targets)
    total = 0.0
    for index in range(chunks):
        x, y = saved[index]
        if stage.is_last:
            (y * sizes[index] / batch.size).backward()
        else:
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    if stage.is_last:
        for size, (_, y) in zip(sizes, saved, strict=True):
            total += y.item() * size / batch.size
    return total
