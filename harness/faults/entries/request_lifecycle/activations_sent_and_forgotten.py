"""1F1B whose isend_forward returns to nobody.

Does: A 1F1B step sends its activations with isend, so that the steady state does not deadlock, and
ignores the handles.

Wrong: The first activation of the warmup is sent before the next stage has posted its receive. With
its handle goes the send.

Shows: The next stage hangs in its first receive on gloo; on NCCL, which keeps what was posted, it
trains.

Instead: Append what isend_forward returns to a list, and wait for all of it at the end of the step.
"""

LABEL = {
    "class": "request-lifecycle",
    "scope": "step",
    "source": "micropp fec9458: isend handle dropped",
    "world": 2,
    "chunks": 2,
    "code": "dropped-request",
    "backends": {"nccl": "unawaited-request"},
    "options": {"semantics": "gloo"},
}


def faulty(stage, comms, batch, chunks):
    if batch.size % chunks:
        raise ValueError(f"batch {batch.size} is not divisible by chunks {chunks}")
    size = batch.size // chunks
    inputs = batch.inputs.chunk(chunks) if stage.is_first else None
    targets = batch.targets.chunk(chunks) if stage.is_last else None
    received, outputs = [], []

    def forward(index):
        shape = stage.input_shape(size)
        x = inputs[index] if stage.is_first else comms.receive_forward(shape).requires_grad_()
        received.append(x)
        outputs.append(stage(x, targets[index]) / chunks if stage.is_last else stage(x))
        if not stage.is_last:
            comms.isend_forward(outputs[-1])  # fault

    def backward(index):
        shape = stage.output_shape(size)
        outputs[index].backward(None if stage.is_last else comms.receive_backward(shape))
        if not stage.is_first:
            comms.send_backward(received[index].grad)

    warmup = min(chunks, comms.world_size - comms.rank - 1)
    for index in range(warmup):
        forward(index)
    for index in range(chunks - warmup):
        forward(warmup + index)
        backward(index)
    for index in range(chunks - warmup, chunks):
        backward(index)
    return sum(output.detach() for output in outputs) if stage.is_last else None


def correct(stage, comms, batch, chunks):
    if batch.size % chunks:
        raise ValueError(f"batch {batch.size} is not divisible by chunks {chunks}")
    size = batch.size // chunks
    inputs = batch.inputs.chunk(chunks) if stage.is_first else None
    targets = batch.targets.chunk(chunks) if stage.is_last else None
    received, outputs, works = [], [], []

    def forward(index):
        shape = stage.input_shape(size)
        x = inputs[index] if stage.is_first else comms.receive_forward(shape).requires_grad_()
        received.append(x)
        outputs.append(stage(x, targets[index]) / chunks if stage.is_last else stage(x))
        if not stage.is_last:
            works.append(comms.isend_forward(outputs[-1]))

    def backward(index):
        shape = stage.output_shape(size)
        outputs[index].backward(None if stage.is_last else comms.receive_backward(shape))
        if not stage.is_first:
            comms.send_backward(received[index].grad)

    warmup = min(chunks, comms.world_size - comms.rank - 1)
    for index in range(warmup):
        forward(index)
    for index in range(chunks - warmup):
        forward(warmup + index)
        backward(index)
    for index in range(chunks - warmup, chunks):
        backward(index)
    for work in works:
        work.wait()
    return sum(output.detach() for output in outputs) if stage.is_last else None
