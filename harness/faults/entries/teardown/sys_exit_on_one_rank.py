"""A rank gives up by sys.exit with a status.

Does: Rank 1 finds that it cannot go on and calls sys.exit(1); rank 0 waits for its tensor.

Wrong: The others are not told.

Shows: Rank 0 sees a closed connection in place of the reason.

Instead: Agree with the others by a collective, and leave together.
"""

import sys

import torch
import torch.distributed as dist

LABEL = {
    "class": "teardown",
    "scope": "program",
    "source": "MPI Bugs Initiative (early exit)",
    "world": 2,
    "code": "rank-error",
    "ranks": [1],
}


def faulty(rank, world_size):
    tensor = torch.zeros(4)
    if rank == 1:
        if tensor.sum() == 0:
            sys.exit(1)  # fault
        dist.send(tensor, 0)
    else:
        dist.recv(tensor, 1)


def correct(rank, world_size):
    tensor = torch.zeros(4)
    empty = (tensor.sum() == 0).float()
    dist.all_reduce(empty)
    if empty:
        return
    if rank == 1:
        dist.send(tensor, 0)
    else:
        dist.recv(tensor, 1)
