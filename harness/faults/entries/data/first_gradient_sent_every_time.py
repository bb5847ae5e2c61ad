"""The first microbatch's gradient is sent back every time.

Does: After each backward the last stage sends the gradient of a saved activation to the rank
before.

Wrong: It looks it up under a fixed index: what is sent is always that of microbatch 0.

Shows: The last stage is right. Below it every microbatch goes backward with the gradient of the
first.

Instead: Send the gradient of the activation whose backward has just run.
"""

from _parts import cut, forwards

LABEL = {
    "class": "data",
    "scope": "step",
    "source": "TrainVerify (backward reads the wrong input)",
    "world": 2,
    "chunks": 2,
    "code": "gradient-mismatch",
    "cause": "unknown",
    "ranks": [0],
    "options": {"cases": 2},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    saved = forwards(stage, comms, sizes, inputs, targets)
    total = 0.0
    for size, (x, y) in zip(sizes, saved, strict=True):
        if stage.is_last:
            loss = y * (size / batch.size)
            total += loss.item()
            loss.backward()
        else:
            y.backward(comms.receive_backward(y.shape))  # fault: shows here
        if not stage.is_first:
            comms.send_backward(saved[0][0].grad)  # fault
    return total if stage.is_last else None


def correct(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    saved = forwards(stage, comms, sizes, inputs, targets)
    total = 0.0
    for size, (x, y) in zip(sizes, saved, strict=True):
        if stage.is_last:
            loss = y * (size / batch.size)
            total += loss.item()
            loss.backward()
        else:
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None
