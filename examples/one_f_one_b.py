"""One training step by 1F1B: warmup forwards, then one forward and one backward in turn.

Right on every backend: what two neighbours send each other at the same time is one batch, so that
neither waits for the other's receive first.
"""

import torch
import torch.distributed as dist


def step(stage, comms, batch, chunks):
    """Run one step on this rank; return the mean loss on the last stage's rank."""
    if chunks > batch.size:
        raise ValueError(f"chunks={chunks} is more than the batch of {batch.size}")
    base, extra = divmod(batch.size, chunks)
    sizes = [base + (index < extra) for index in range(chunks)]
    inputs = batch.inputs.split(sizes) if stage.is_first else None
    targets = batch.targets.split(sizes) if stage.is_last else None
    received, outputs = {}, {}
    total = torch.zeros((), dtype=stage.dtype, device=stage.device)

    def empty(shape):
        return torch.empty(shape, dtype=stage.dtype, device=stage.device)

    def activation_of(index):
        """Return what receives it, and the operations: none on the first stage."""
        if stage.is_first:
            return inputs[index], []
        buffer = empty(stage.input_shape(sizes[index]))
        return buffer, [dist.P2POp(dist.irecv, buffer, comms.previous_rank)]

    def gradient_of(index):
        if stage.is_last:
            return None, []
        buffer = empty(stage.output_shape(sizes[index]))
        return buffer, [dist.P2POp(dist.irecv, buffer, comms.next_rank)]

    def onward(tensor):
        return [] if stage.is_last else [dist.P2POp(dist.isend, tensor.detach(), comms.next_rank)]

    def back(tensor):
        return [] if stage.is_first else [dist.P2POp(dist.isend, tensor, comms.previous_rank)]

    def exchange(*operations):
        if operations:
            for request in dist.batch_isend_irecv(list(operations)):
                request.wait()

    def forward(index, x):
        received[index] = x if stage.is_first else x.requires_grad_()
        if stage.is_last:
            mean = stage(received[index], targets[index])
            outputs[index] = mean * (sizes[index] / batch.size)
        else:
            outputs[index] = stage(received[index])
        return outputs[index]

    def backward(index, gradient):
        nonlocal total
        output = outputs.pop(index)
        output.backward(gradient)
        if stage.is_last:
            total = total + output.detach()
        return received.pop(index).grad

    warmup = min(chunks, comms.world_size - comms.rank - 1)
    for index in range(warmup):
        x, coming = activation_of(index)
        exchange(*coming)
        exchange(*onward(forward(index, x)))
    if warmup < chunks:
        x, coming = activation_of(warmup)
        exchange(*coming)
    for index in range(chunks - warmup):
        y = forward(warmup + index, x)
        gradient, coming = gradient_of(index)
        exchange(*onward(y), *coming)
        x_gradient = backward(index, gradient)
        coming = []
        if warmup + index + 1 < chunks:
            x, coming = activation_of(warmup + index + 1)
        exchange(*back(x_gradient), *coming)
    for index in range(chunks - warmup, chunks):
        gradient, coming = gradient_of(index)
        exchange(*coming)
        exchange(*back(backward(index, gradient)))
    return total if stage.is_last else None
