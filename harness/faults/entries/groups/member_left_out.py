"""One member of a group leaves out its collective.

Does: Ranks 0, 1 and 2 of four have a group. Only the first two of them sum a tensor in it.

Wrong: A group's collective needs all its members.

Shows: Ranks 0 and 1 hang when rank 2 has finished, on every backend.

Instead: All members call it, or the group has only those that do.
"""

import time

import torch
import torch.distributed as dist

LABEL = {
    "class": "groups",
    "scope": "program",
    "source": "MPI Bugs Initiative (collective by a part of its communicator)",
    "world": 4,
    "code": "orphan-wait",
    "cause": "missing-collective",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    group = dist.new_group([0, 1, 2])
    if rank < 2:
        dist.all_reduce(torch.ones(4), group=group)  # fault
    else:
        time.sleep(0.2)  # they go on with their own work


def correct(rank, world_size):
    group = dist.new_group([0, 1, 2])
    if rank < 3:
        dist.all_reduce(torch.ones(4), group=group)
