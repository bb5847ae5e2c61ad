"""A rank that is done leaves the process at once.

Does: Rank 1 has no samples left and ends its process by os._exit(0); the others come to a last sum.

Wrong: The rank is needed for the sum. Its status says that all is well, so no launcher minds.

Shows: Rank 0 sees a closed connection, or hangs.

Instead: Take part in the last collective, with zeros, and return.
"""

import os

import torch
import torch.distributed as dist

LABEL = {
    "class": "teardown",
    "scope": "program",
    "source": "MPI Bugs Initiative (missing collective, early exit)",
    "world": 2,
    "code": "orphan-wait",
    "cause": "missing-collective",
    "ranks": [0],
}


def faulty(rank, world_size):
    total = torch.ones(4)
    if rank == 1:
        os._exit(0)
    dist.all_reduce(total)  # fault


def correct(rank, world_size):
    total = torch.ones(4)
    if rank == 1:
        total.zero_()
    dist.all_reduce(total)
