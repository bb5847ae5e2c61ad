"""1F1B with blocking sends: in the steady state both neighbours send first."""

import torch


def step(stage, comms, batch, chunks):
    if batch.size % chunks:
        raise ValueError(f"batch {batch.size} is not divisible by chunks {chunks}")
    size = batch.size // chunks
    inputs = batch.inputs.chunk(chunks) if stage.is_first else None
    targets = batch.targets.chunk(chunks) if stage.is_last else None
    received, outputs = [None] * chunks, [None] * chunks
    total = torch.zeros((), dtype=stage.dtype, device=stage.device)

    def forward(index):
        if stage.is_first:
            x = inputs[index]
        else:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        y = stage(x, targets[index]) if stage.is_last else stage(x)
        received[index], outputs[index] = x, y
        if not stage.is_last:
            comms.send_forward(y)

    def backward(index):
        nonlocal total
        if stage.is_last:
            (outputs[index] / chunks).backward()
            total = total + outputs[index].detach() / chunks
        else:
            outputs[index].backward(comms.receive_backward(stage.output_shape(size)))
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
    return total if stage.is_last else None
