"""The loss is not divided by the number of microbatches before its backward.

Does: A GPipe step adds up the gradients of its microbatches. The loss that it reports is the mean
over them.

Wrong: Each microbatch's mean loss goes backward whole, so that the gradients add up to the sum over
the microbatches. Only the reported number was divided.

Shows: Every gradient is as many times too large as there are microbatches. The loss is right in the
first step, and Adam, whose update hardly depends on a gradient's scale, keeps it near for long.

Instead: Weight each loss by its microbatch's share of the batch before its backward, and report the
sum of these.
"""

from _parts import cut, forwards

LABEL = {
    "class": "accumulation",
    "scope": "step",
    "source": "micropp 34de21e; torchtitan#2972, #4194; pytorch#144352; DeepSpeed#7773",
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
            y.backward()  # fault
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
