"""torch.chunk gives fewer pieces than it is asked for.

Does: A step cuts inputs and targets by chunk(chunks) and loops over range(chunks).

Wrong: torch.chunk makes pieces of ceil(batch / chunks) samples, as many as that takes: 4 samples in
3 chunks are 2 pieces.

Shows: An IndexError, on the ranks that hold inputs or targets. Where the loop is over the pieces
instead, fewer microbatches run than others wait for.

Instead: Use tensor_split, or sizes of your own; or refuse batches that chunks does not divide.
"""

import torch

LABEL = {
    "class": "splitting",
    "scope": "step",
    "source": "pytorch#126600, PiPPy#192; the course (32 % chunks)",
    "world": 1,
    "chunks": 3,
    "code": "rank-error",
    "ranks": [0],
    "options": {"cases": 5},
}


def faulty(stage, comms, batch, chunks):
    if batch.size < chunks:
        raise ValueError(f"{batch.size} samples cannot fill {chunks} microbatches")

    def pieces(tensor):
        return tensor.chunk(chunks)  # fault

    inputs = pieces(batch.inputs) if stage.is_first else None
    targets = pieces(batch.targets) if stage.is_last else None
    sizes = [len(piece) for piece in pieces(torch.arange(batch.size))]
    total = 0.0
    for index in range(chunks):
        if stage.is_first:
            x = inputs[index]  # fault: shows here
        else:
            x = comms.receive_forward(stage.input_shape(sizes[index])).requires_grad_()
        if stage.is_last:
            loss = stage(x, targets[index]) * (sizes[index] / batch.size)
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
    if batch.size < chunks:
        raise ValueError(f"{batch.size} samples cannot fill {chunks} microbatches")

    def pieces(tensor):
        return tensor.tensor_split(chunks)

    inputs = pieces(batch.inputs) if stage.is_first else None
    targets = pieces(batch.targets) if stage.is_last else None
    sizes = [len(piece) for piece in pieces(torch.arange(batch.size))]
    total = 0.0
    for index in range(chunks):
        if stage.is_first:
            x = inputs[index]
        else:
            x = comms.receive_forward(stage.input_shape(sizes[index])).requires_grad_()
        if stage.is_last:
            loss = stage(x, targets[index]) * (sizes[index] / batch.size)
            total += loss.item()
            loss.backward()
        else:
            y = stage(x)
            comms.send_forward(y)
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None
