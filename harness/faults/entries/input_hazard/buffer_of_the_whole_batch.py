"""The receive buffer is made for the batch, and a microbatch comes.

Does: A GPipe step receives each activation into a buffer for batch.size samples.

Wrong: What comes is a microbatch: the other rows keep what was in them, and are computed with.

Shows: No error on gloo. With one microbatch the sizes agree, so that the first test passes.

Instead: Ask for batch.size // chunks samples.
"""

LABEL = {
    "class": "input-hazard",
    "scope": "step",
    "source": "course on pipeline parallelism: whole-batch buffer; pytorch#113376",
    "world": 2,
    "chunks": 2,
    "code": "shape-mismatch",
    "ranks": [0, 1],
}


def faulty(stage, comms, batch, chunks):
    if batch.size % chunks:
        raise ValueError(f"batch {batch.size} is not divisible by chunks {chunks}")
    size = batch.size // chunks
    inputs = batch.inputs.chunk(chunks) if stage.is_first else None
    targets = batch.targets.chunk(chunks) if stage.is_last else None
    received, outputs = [], []
    for index in range(chunks):
        if stage.is_first:
            x = inputs[index]
        else:
            shape = stage.input_shape(batch.size)
            x = comms.receive_forward(shape).requires_grad_()  # fault
        received.append(x)
        outputs.append(stage(x, targets[index]) / chunks if stage.is_last else stage(x))
        if not stage.is_last:
            comms.send_forward(outputs[-1])  # fault
    for x, y in zip(received, outputs, strict=True):
        y.backward(None if stage.is_last else comms.receive_backward(stage.output_shape(size)))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return sum(y.detach() for y in outputs) if stage.is_last else None


def correct(stage, comms, batch, chunks):
    if batch.size % chunks:
        raise ValueError(f"batch {batch.size} is not divisible by chunks {chunks}")
    size = batch.size // chunks
    inputs = batch.inputs.chunk(chunks) if stage.is_first else None
    targets = batch.targets.chunk(chunks) if stage.is_last else None
    received, outputs = [], []
    for index in range(chunks):
        if stage.is_first:
            x = inputs[index]
        else:
            shape = stage.input_shape(size)
            x = comms.receive_forward(shape).requires_grad_()
        received.append(x)
        outputs.append(stage(x, targets[index]) / chunks if stage.is_last else stage(x))
        if not stage.is_last:
            comms.send_forward(outputs[-1])
    for x, y in zip(received, outputs, strict=True):
        y.backward(None if stage.is_last else comms.receive_backward(stage.output_shape(size)))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return sum(y.detach() for y in outputs) if stage.is_last else None
