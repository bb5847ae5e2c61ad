"""A transposed tensor is sent as it is.

Does: Rank 0 sends an activation after .t(), rank 1 receives into a buffer of that shape.

Wrong: A transposed tensor is a view with other strides, and a message needs its elements in one
piece.

Shows: ValueError on rank 0, at the call; rank 1 waits for ever.

Instead: Call .contiguous() first.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "invalid-parameter",
    "scope": "program",
    "source": "gloo: non-contiguous tensor",
    "world": 2,
    "code": "invalid-argument",
    "ranks": [0],
}


def faulty(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(4, 2).t(), 1)  # fault
    else:
        dist.recv(torch.empty(2, 4), 0)


def correct(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(4, 2).t().contiguous(), 1)
    else:
        dist.recv(torch.empty(2, 4), 0)
