"""The running sum of the losses goes backward after every microbatch.

Does: A loop adds each microbatch's loss to a running one, and calls backward on that;
retain_graph=True was added when autograd complained.

Wrong: The sum still holds the graphs of the earlier microbatches: each of them goes backward again
with every one that follows.

Shows: With two microbatches the first counts twice. Memory grows too, because no graph is ever
freed.

Instead: Call backward on this microbatch's loss, and add up detached values.
"""

from _parts import cut

LABEL = {
    "class": "accumulation",
    "scope": "step",
    "source": "the course (the running loss is never detached)",
    "world": 1,
    "chunks": 2,
    "code": "gradient-mismatch",
    "cause": "duplicate-microbatch:0",
    "ranks": [0],
    "options": {"cases": 2},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total = 0.0
    for size, x, target in zip(sizes, inputs, targets, strict=True):
        if not stage.is_first:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        if stage.is_last:
            total = total + stage(x, target) * (size / batch.size)
            total.backward(retain_graph=True)  # fault
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
            loss = stage(x, target) * (size / batch.size)
            loss.backward()
            total = total + loss.detach()
        else:
            y = stage(x)
            comms.send_forward(y)
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None
