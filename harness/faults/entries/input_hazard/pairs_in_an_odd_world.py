"""Ranks are paired, and one is left over.

Does: Even ranks exchange with the next, odd ones with the one before: rank ^ 1.

Wrong: In a world of 3, rank 2 is paired with rank 3, which does not exist.

Shows: The simulator and NCCL refuse the call. gloo waits for rank 3 to connect until its store
gives up.

Instead: Pair only ranks whose partner is in the world.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "input-hazard",
    "scope": "program",
    "source": "MPI Bugs Initiative (input hazard)",
    "world": 3,
    "code": "invalid-argument",
    "ranks": [2],
    "backends": {"gloo": "timeout"},
    "options": {"timeout": 5},
}


def faulty(rank, world_size):
    partner, mine, theirs = rank ^ 1, torch.ones(2), torch.empty(2)
    if rank < partner:
        dist.send(mine, partner)  # fault
        dist.recv(theirs, partner)
    else:
        dist.recv(theirs, partner)
        dist.send(mine, partner)


def correct(rank, world_size):
    partner, mine, theirs = rank ^ 1, torch.ones(2), torch.empty(2)
    if partner == world_size:
        return
    if rank < partner:
        dist.send(mine, partner)
        dist.recv(theirs, partner)
    else:
        dist.recv(theirs, partner)
        dist.send(mine, partner)
