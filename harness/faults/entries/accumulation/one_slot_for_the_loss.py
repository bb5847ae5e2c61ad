"""One variable holds the loss of several microbatches.

Does: All forwards run first; on the last stage each keeps its loss in the same variable. The
backwards follow.

Wrong: The losses before the last are overwritten, and with them the only way into their graphs.

Shows: Without a pipeline only the last microbatch has a gradient, and nothing is raised. With one,
the rank before is to be sent gradients that do not exist.

Instead: Keep one loss for each microbatch, and call backward on each.
"""

from _parts import cut, forwards

LABEL = {
    "class": "accumulation",
    "scope": "step",
    "source": "DeepSpeed#3900; pytorch#139404",
    "world": 1,
    "chunks": 2,
    "code": "gradient-mismatch",
    "cause": "missing-microbatch:0",
    "ranks": [0],
    "options": {"cases": 2},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    saved = forwards(stage, comms, sizes, inputs, targets)
    total = 0.0
    if stage.is_last:
        for size, (_, y) in zip(sizes, saved, strict=True):
            loss = y * (size / batch.size)  # fault
            total += loss.item()
    for index, (x, y) in enumerate(saved):
        if stage.is_last:
            if index == chunks - 1:
                loss.backward()  # fault: shows here
        else:
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None


def correct(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    saved = forwards(stage, comms, sizes, inputs, targets)
    total = 0.0
    if stage.is_last:
        losses = []
        for size, (_, y) in zip(sizes, saved, strict=True):
            losses.append(y * (size / batch.size))
            total += losses[-1].item()
    for index, (x, y) in enumerate(saved):
        if stage.is_last:
            losses[index].backward()
        else:
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None
