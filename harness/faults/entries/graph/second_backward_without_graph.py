"""The backward goes through one graph twice.

Does: A loop adds each microbatch's loss to a running one, and calls backward on the sum so far.

Wrong: The sum holds the graphs of the earlier microbatches. The first backward has freed them.

Shows: One microbatch is right. With two, the second backward raises that it goes through the graph
a second time. The usual advice, retain_graph=True, silences it and makes the gradient wrong.

Instead: Call backward on this microbatch's loss alone, and add up detached values.
"""

from _parts import cut

LABEL = {
    "class": "graph",
    "scope": "step",
    "source": "the course (the running loss is never detached); retain_graph missing",
    "world": 1,
    "chunks": 2,
    "code": "rank-error",
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
            y = stage(x, target)
            total = total + y * (size / batch.size)
            total.backward()  # fault
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
            y = stage(x, target)
            loss = y * (size / batch.size)
            total = total + loss.detach()
            loss.backward()
        else:
            y = stage(x)
            comms.send_forward(y)
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None
