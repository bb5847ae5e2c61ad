"""One training step by GPipe: all forwards, then all backwards, the last microbatch first."""

import torch


def step(stage, comms, batch, chunks):
    """Run one step on this rank; return the mean loss on the last stage's rank."""
    if chunks > batch.size:
        raise ValueError(f"chunks={chunks} is more than the batch of {batch.size}")
    base, extra = divmod(batch.size, chunks)
    sizes = [base + (index < extra) for index in range(chunks)]
    inputs = batch.inputs.split(sizes) if stage.is_first else None
    targets = batch.targets.split(sizes) if stage.is_last else None
    received, outputs = [], []
    for index, size in enumerate(sizes):
        if stage.is_first:
            x = inputs[index]
        else:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        received.append(x)
        if stage.is_last:
            outputs.append(stage(x, targets[index]) * (size / batch.size))
        else:
            outputs.append(stage(x))
            comms.send_forward(outputs[-1])
    total = torch.zeros((), dtype=stage.dtype, device=stage.device)
    for index in reversed(range(chunks)):
        if stage.is_last:
            outputs[index].backward()
            total = total + outputs[index].detach()
        else:
            outputs[index].backward(comms.receive_backward(stage.output_shape(sizes[index])))
        if not stage.is_first:
            comms.send_backward(received[index].grad)
    return total if stage.is_last else None
