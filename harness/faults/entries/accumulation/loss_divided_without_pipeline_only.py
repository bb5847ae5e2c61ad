"""The loss is divided for accumulation only where there is no pipeline.

Does: One training loop serves both ways: with a single stage it divides the loss by chunks, with
several it leaves that to the pipeline's code.

Wrong: The pipeline's code leaves it to the loop. With two stages or more nobody divides.

Shows: Right with one stage, so that the comparison run passes; with more stages every gradient is
chunks times too large.

Instead: Weight the loss in one place that all paths go through.
"""

from _parts import cut, forwards

LABEL = {
    "class": "accumulation",
    "scope": "step",
    "source": "picotron, by reading: divided for accumulation without a pipeline, not with it",
    "world": 2,
    "chunks": 2,
    "code": "gradient-mismatch",
    "cause": "scale:2",
    "ranks": [0, 1],
    "options": {"cases": 2},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total = 0.0
    for size, (x, y) in zip(sizes, forwards(stage, comms, sizes, inputs, targets), strict=True):
        share = size / batch.size
        if stage.is_last:
            total += y.item() * share
            weight = share if stage.count == 1 else 1.0
            (y * weight).backward()  # fault
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
            weight = share
            (y * weight).backward()
        else:
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None
