"""The samples that are left over are never fed.

Does: A step takes batch // chunks samples for each microbatch.

Wrong: Where chunks does not divide the batch, the last samples belong to no microbatch.

Shows: Nothing is raised. Right for even batches; else the model never sees the last samples of any
batch, and the loss is that of the others.

Instead: Spread the remainder over the microbatches, or raise ValueError for such a batch.
"""

LABEL = {
    "class": "splitting",
    "scope": "step",
    "source": "the course (batch not divisible by chunks)",
    "world": 1,
    "chunks": 2,
    "code": "gradient-mismatch",
    "cause": "missing-microbatch:2",
    "ranks": [0],
    "details": {"never_fed": [2]},
    "options": {"cases": 3},
}


def faulty(stage, comms, batch, chunks):
    if batch.size < chunks:
        raise ValueError(f"{batch.size} samples cannot fill {chunks} microbatches")
    base, extra = divmod(batch.size, chunks)
    total, start = 0.0, 0
    for index in range(chunks):
        stop = start + base  # fault
        size = stop - start
        if stage.is_first:
            x = batch.inputs[start:stop]
        else:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        if stage.is_last:
            loss = stage(x, batch.targets[start:stop]) * (size / batch.size)
            total += loss.item()
            loss.backward()  # fault: shows here
        else:
            y = stage(x)
            comms.send_forward(y)
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
        start = stop
    return total if stage.is_last else None


def correct(stage, comms, batch, chunks):
    if batch.size < chunks:
        raise ValueError(f"{batch.size} samples cannot fill {chunks} microbatches")
    base, extra = divmod(batch.size, chunks)
    total, start = 0.0, 0
    for index in range(chunks):
        stop = start + base + (index < extra)
        size = stop - start
        if stage.is_first:
            x = batch.inputs[start:stop]
        else:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        if stage.is_last:
            loss = stage(x, batch.targets[start:stop]) * (size / batch.size)
            total += loss.item()
            loss.backward()
        else:
            y = stage(x)
            comms.send_forward(y)
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
        start = stop
    return total if stage.is_last else None
