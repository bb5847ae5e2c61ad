"""Every microbatch is the first one.

Does: A loop over the microbatches cuts inputs and targets by an index that it never moves on.

Wrong: All of them are the first samples of the batch, with their targets; the others never go in.

Shows: Nothing is raised; the loss is that of a part of the batch and falls faster than it should.
The first microbatch counts for all.

Instead: Cut by the loop's own index, and check that every sample goes in once.
"""

from _parts import cut

LABEL = {
    "class": "data",
    "scope": "step",
    "source": "TrainVerify (microbatch duplicated, another dropped)",
    "world": 1,
    "chunks": 2,
    "code": "gradient-mismatch",
    "cause": "missing-microbatch:1",
    "ranks": [0],
    "options": {"cases": 2},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total, index = 0.0, 0
    for size in sizes:
        x, target = inputs[index], targets[index]  # fault
        if not stage.is_first:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        if stage.is_last:
            loss = stage(x, target) * (size / batch.size)
            total += loss.item()
            loss.backward()  # fault: shows here
        else:
            y = stage(x)
            comms.send_forward(y)
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None


def correct(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total, index = 0.0, 0
    for size in sizes:
        x, target = inputs[index], targets[index]
        if not stage.is_first:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        if stage.is_last:
            loss = stage(x, target) * (size / batch.size)
            total += loss.item()
            loss.backward()
        else:
            y = stage(x)
            comms.send_forward(y)
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
        index += 1
    return total if stage.is_last else None
