"""What has been accumulated is divided again with every microbatch.

Does: A step divides the gradients by chunks after each microbatch's backward, instead of the loss
before it.

Wrong: .grad holds the sum so far, not this microbatch's part: the first microbatch is divided as
often as microbatches follow it.

Shows: Later microbatches count more than earlier ones: with two of them 1/4 and 1/2, where each
should count 1/2. The loss is right.

Instead: Weight the loss before its backward, or divide the gradients once, after the last
microbatch.
"""

from _parts import cut, forwards

LABEL = {
    "class": "accumulation",
    "scope": "step",
    "source": "torchtitan#1733",
    "world": 1,
    "chunks": 2,
    "code": "gradient-mismatch",
    "cause": "unknown",
    "ranks": [0],
    "details": {"coefficients": [0.5, 1.0]},
    "options": {"cases": 2},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total = 0.0
    for size, (x, y) in zip(sizes, forwards(stage, comms, sizes, inputs, targets), strict=True):
        share = size / batch.size
        if stage.is_last:
            total += y.item() * share
            y.backward()  # fault: shows here
        else:
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
        for parameter in stage.parameters():
            parameter.grad /= chunks  # fault
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
