"""The size of a microbatch is computed by / instead of //.

Does: A step divides the batch by chunks to know what to receive.

Wrong: / gives a float even where the division leaves nothing: 4 / 2 is 2.0, and no shape.

Shows: The first rank is fine, it cuts tensors by the number of chunks. The others fail in making
their buffer.

Instead: Use //, and check that nothing is left.
"""

LABEL = {
    "class": "splitting",
    "scope": "step",
    "source": "the course (float division)",
    "world": 2,
    "chunks": 1,
    "code": "invalid-argument",
    "ranks": [1],
    "options": {"cases": 2},
}


def faulty(stage, comms, batch, chunks):
    if batch.size % chunks:
        raise ValueError(f"{chunks} microbatches do not divide {batch.size} samples")
    size = batch.size / chunks  # fault
    inputs = batch.inputs.chunk(chunks) if stage.is_first else [None] * chunks
    targets = batch.targets.chunk(chunks) if stage.is_last else [None] * chunks
    total = 0.0
    for x, target in zip(inputs, targets, strict=True):
        if not stage.is_first:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()  # fault: shows here
        if stage.is_last:
            loss = stage(x, target) / chunks
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
    if batch.size % chunks:
        raise ValueError(f"{chunks} microbatches do not divide {batch.size} samples")
    size = batch.size // chunks
    inputs = batch.inputs.chunk(chunks) if stage.is_first else [None] * chunks
    targets = batch.targets.chunk(chunks) if stage.is_last else [None] * chunks
    total = 0.0
    for x, target in zip(inputs, targets, strict=True):
        if not stage.is_first:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        if stage.is_last:
            loss = stage(x, target) / chunks
            total += loss.item()
            loss.backward()
        else:
            y = stage(x)
            comms.send_forward(y)
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None
