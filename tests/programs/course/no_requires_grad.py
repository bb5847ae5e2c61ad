"""The received activation does not require grad: the graph is cut there."""

import torch


def step(stage, comms, batch, chunks):
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
            x = comms.receive_forward(stage.input_shape(size))
        received.append(x)
        y = stage(x, targets[index]) if stage.is_last else stage(x)
        outputs.append(y)
        if not stage.is_last:
            comms.send_forward(y)
    total = torch.zeros((), dtype=stage.dtype, device=stage.device)
    for x, y in zip(received, outputs, strict=True):
        if stage.is_last:
            (y / chunks).backward()
            total += y.detach() / chunks
        else:
            y.backward(comms.receive_backward(stage.output_shape(size)))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None
