"""The root of a broadcast leaves it to the others.

Does: Rank 0 has the weights, so only the other ranks call broadcast to get them.

Wrong: The root has to call broadcast as well: that is the send.

Shows: All ranks but the root hang; the root has long finished.

Instead: Every rank of the group calls broadcast, the root with its own tensor.
"""

import time

import torch
import torch.distributed as dist

LABEL = {
    "class": "call-ordering",
    "scope": "program",
    "source": "MPI Bugs Initiative (call ordering, missing collective on the root)",
    "world": 3,
    "code": "orphan-wait",
    "cause": "missing-collective",
    "ranks": [1, 2],
}


def faulty(rank, world_size):
    weights = torch.ones(4) if rank == 0 else torch.empty(4)
    if rank != 0:
        dist.broadcast(weights, src=0)  # fault
    else:
        time.sleep(0.2)  # it goes on with its own work


def correct(rank, world_size):
    weights = torch.ones(4) if rank == 0 else torch.empty(4)
    dist.broadcast(weights, src=0)
