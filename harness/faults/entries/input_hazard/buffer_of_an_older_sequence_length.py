"""The receive buffer keeps the shape of the first sequence.

Does: Rank 1 allocates its buffer at the first step and keeps it; at the second step the sequences
are longer.

Wrong: The shape is cached, and nothing empties the cache when the length changes.

Shows: gloo aborts rank 1. Where sequences get shorter it is silent: the buffer keeps old values at
its end.

Instead: Send the shape first when it can change, or allocate by what the step says.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "input-hazard",
    "scope": "program",
    "source": "DeepSpeed#5696: stale receive buffer shape",
    "world": 2,
    "code": "shape-mismatch",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    buffer = None
    for length in (4, 6):
        if rank == 0:
            dist.send(torch.ones(length, 2), 1)  # fault
        else:
            buffer = torch.empty(length, 2) if buffer is None else buffer
            dist.recv(buffer, 0)  # fault


def correct(rank, world_size):
    buffer = None
    for length in (4, 6):
        if rank == 0:
            dist.send(torch.ones(length, 2), 1)
        else:
            if buffer is None or len(buffer) != length:
                buffer = torch.empty(length, 2)
            dist.recv(buffer, 0)
