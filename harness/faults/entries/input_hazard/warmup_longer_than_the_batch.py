"""The warmup of 1F1B is longer than the batch has microbatches.

Does: A 1F1B step does world_size - rank - 1 forwards before its first backward, however many
microbatches there are.

Wrong: With fewer microbatches than that, the first stages ask for one that does not exist.

Shows: IndexError on rank 0, for fewer chunks than world_size - 1. Larger numbers are right.

Instead: warmup = min(chunks, world_size - rank - 1).
"""

LABEL = {
    "class": "input-hazard",
    "scope": "step",
    "source": "micropp HEAD: warmup unclamped; Primus#1003; torchtitan#775",
    "world": 3,
    "chunks": 1,
    "code": "rank-error",
    "ranks": [0],
    "options": {"semantics": "gloo"},
}


def faulty(stage, comms, batch, chunks):
    if batch.size % chunks:
        raise ValueError(f"batch {batch.size} is not divisible by chunks {chunks}")
    size, received, outputs, works = batch.size // chunks, [], [], []
    inputs = batch.inputs.chunk(chunks) if stage.is_first else None
    targets = batch.targets.chunk(chunks) if stage.is_last else None

    def forward(index):
        if stage.is_first:
            x = inputs[index]  # fault
        else:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        received.append(x)
        outputs.append(stage(x, targets[index]) / chunks if stage.is_last else stage(x))
        if not stage.is_last:
            works.append(comms.isend_forward(outputs[-1]))

    def backward(index):
        shape = stage.output_shape(size)
        outputs[index].backward(None if stage.is_last else comms.receive_backward(shape))
        if not stage.is_first:
            comms.send_backward(received[index].grad)

    warmup = comms.world_size - comms.rank - 1
    for index in range(warmup):
        forward(index)
    for index in range(chunks - warmup):
        forward(warmup + index)
        backward(index)
    for index in range(max(0, chunks - warmup), chunks):
        backward(index)
    for work in works:
        work.wait()
    return sum(output.detach() for output in outputs) if stage.is_last else None


def correct(stage, comms, batch, chunks):
    if batch.size % chunks:
        raise ValueError(f"batch {batch.size} is not divisible by chunks {chunks}")
    size, received, outputs, works = batch.size // chunks, [], [], []
    inputs = batch.inputs.chunk(chunks) if stage.is_first else None
    targets = batch.targets.chunk(chunks) if stage.is_last else None

    def forward(index):
        if stage.is_first:
            x = inputs[index]
        else:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
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
    for index in range(max(0, chunks - warmup), chunks):
        backward(index)
    for work in works:
        work.wait()
    return sum(output.detach() for output in outputs) if stage.is_last else None
