"""Targets are taken in the reverse order of the microbatches.

Does: All forwards come first; the last stage takes each microbatch's targets off the end of a list.

Wrong: pop() takes from the end. Activations arrive from the first microbatch on: they meet the
targets of others.

Shows: The loss is right on average and even falls. Labels of other samples are learnt; with two
microbatches of like content hardly a curve shows it.

Instead: Take targets by the microbatch's index.
"""

from _parts import cut

LABEL = {
    "class": "data",
    "scope": "step",
    "source": "the course (targets reversed across microbatches); DeepSpeed#5729",
    "world": 1,
    "chunks": 2,
    "code": "gradient-mismatch",
    "cause": "permuted-targets",
    "ranks": [0],
    "options": {"cases": 2},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total = 0.0
    targets = list(targets)
    for size, x in zip(sizes, inputs, strict=True):
        target = targets.pop()  # fault
        if not stage.is_first:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        if stage.is_last:
            y = stage(x, target)  # fault: shows here
            loss = y * (size / batch.size)
            total += loss.item()
            loss.backward()
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
    targets = list(targets)
    for size, x in zip(sizes, inputs, strict=True):
        target = targets.pop(0)
        if not stage.is_first:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        if stage.is_last:
            y = stage(x, target)
            loss = y * (size / batch.size)
            total += loss.item()
            loss.backward()
        else:
            y = stage(x)
            comms.send_forward(y)
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None
