"""Gradients arrive first to last, outputs are taken last to first.

Does: The last stage sends gradients back from the first microbatch on. The first stage keeps its
outputs in a list and pops the last.

Wrong: Each gradient goes backward through the graph of another microbatch.

Shows: Shapes agree and nothing is raised. The last stage is right, all below are wrong; with one
microbatch everything is right.

Instead: pop(0), or both sides from the end.
"""

from _parts import cut, forwards

LABEL = {
    "class": "data",
    "scope": "step",
    "source": "TrainVerify (backward outputs swapped)",
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
    for size in sizes:
        if stage.is_last:
            x, y = saved.pop(0)
            loss = y * (size / batch.size)
            total += loss.item()
            loss.backward()
        else:
            x, y = saved.pop()  # fault
            y.backward(comms.receive_backward(y.shape))  # fault: shows here
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None


def correct(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    saved = forwards(stage, comms, sizes, inputs, targets)
    total = 0.0
    for size in sizes:
        if stage.is_last:
            x, y = saved.pop(0)
            loss = y * (size / batch.size)
            total += loss.item()
            loss.backward()
        else:
            x, y = saved.pop(0)
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None
