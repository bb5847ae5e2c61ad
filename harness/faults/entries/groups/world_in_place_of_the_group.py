"""The members of a group sum a tensor, but over all ranks.

Does: Ranks 0 and 1 of three mean to sum in their group and forget the argument.

Wrong: Without group= a collective is one of all ranks, and rank 2 never comes to it.

Shows: Ranks 0 and 1 hang when rank 2 has finished, on every backend.

Instead: Pass group= to each collective that is not for all ranks.
"""

import time

import torch
import torch.distributed as dist

LABEL = {
    "class": "groups",
    "scope": "program",
    "source": "MPI Bugs Initiative (wrong communicator)",
    "world": 3,
    "code": "orphan-wait",
    "cause": "missing-collective",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    group = dist.new_group([0, 1])
    if dist.get_rank(group) >= 0:
        dist.all_reduce(torch.ones(4))  # fault
    else:
        time.sleep(0.2)  # it goes on with its own work


def correct(rank, world_size):
    group = dist.new_group([0, 1])
    if dist.get_rank(group) >= 0:
        dist.all_reduce(torch.ones(4), group=group)
