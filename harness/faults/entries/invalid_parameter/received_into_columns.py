"""A receive into some columns of a matrix.

Does: Rank 1 receives its half of the features into the right half of a matrix.

Wrong: Columns of a matrix do not lie in one piece in memory; rows do.

Shows: ValueError on rank 1; rank 0 waits until the group is gone.

Instead: Receive into a buffer of its own and copy, or share out rows.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "invalid-parameter",
    "scope": "program",
    "source": "gloo: non-contiguous tensor",
    "world": 2,
    "code": "invalid-argument",
    "ranks": [1],
}


def faulty(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(4, 2), 1)
    else:
        features = torch.zeros(4, 4)
        dist.recv(features[:, 2:], 0)  # fault


def correct(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(4, 2), 1)
    else:
        features = torch.zeros(4, 4)
        half = torch.empty(4, 2)
        dist.recv(half, 0)
        features[:, 2:] = half
