"""One training step by 1F1B: warmup forwards, then one forward and one backward in turn.

The step of the course, right on gloo: every request is kept and waited for, warmup never exceeds
the number of microbatches, and each loss is weighted by its microbatch's share of the batch. Under
NCCL it is a hazard: without buffer space an activation waits behind the gradient that the other
rank sends at the same time. See one_f_one_b.py for what to do.
"""

import torch


def step(stage, comms, batch, chunks):
    """Run one step on this rank; return the mean loss on the last stage's rank."""
    if chunks > batch.size:
        raise ValueError(f"chunks={chunks} is more than the batch of {batch.size}")
    base, extra = divmod(batch.size, chunks)
    sizes = [base + (index < extra) for index in range(chunks)]
    inputs = batch.inputs.split(sizes) if stage.is_first else None
    targets = batch.targets.split(sizes) if stage.is_last else None
    received, outputs, requests = {}, {}, []
    total = torch.zeros((), dtype=stage.dtype, device=stage.device)

    def forward(index):
        if stage.is_first:
            received[index] = inputs[index]
        else:
            shape = stage.input_shape(sizes[index])
            received[index] = comms.receive_forward(shape).requires_grad_()
        if stage.is_last:
            mean = stage(received[index], targets[index])
            outputs[index] = mean * (sizes[index] / batch.size)
        else:
            outputs[index] = stage(received[index])
            requests.append(comms.isend_forward(outputs[index]))

    def backward(index):
        nonlocal total
        output = outputs.pop(index)
        if stage.is_last:
            output.backward()
            total = total + output.detach()
        else:
            output.backward(comms.receive_backward(stage.output_shape(sizes[index])))
        activation = received.pop(index)
        if not stage.is_first:
            comms.send_backward(activation.grad)

    warmup = min(chunks, comms.world_size - comms.rank - 1)
    for index in range(warmup):
        forward(index)
    for index in range(chunks - warmup):
        forward(warmup + index)
        backward(index)
    for index in range(chunks - warmup, chunks):
        backward(index)
    for request in requests:
        request.wait()
    return total if stage.is_last else None
