"""One rank sums in the group of all, the other in that of the two.

Does: Ranks 0 and 1 of three share a group. Rank 0 sums in it, rank 1 in the group of all ranks.

Wrong: The two calls never meet; and in the group of all, rank 2 does not take part.

Shows: Ranks 0 and 1 hang, on every backend.

Instead: The same group on both.
"""

import time

import torch
import torch.distributed as dist

LABEL = {
    "class": "groups",
    "scope": "program",
    "source": "MPI Bugs Initiative (wrong communicator)",
    "world": 3,
    "code": "deadlock",
    "cause": "wrong-group",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    group, tensor = dist.new_group([0, 1]), torch.ones(4)
    time.sleep(0.2 if rank < 2 else 0)  # rank 2 has nothing to compute
    if rank == 0:
        dist.all_reduce(tensor, group=group)  # fault
    elif rank == 1:
        dist.all_reduce(tensor)  # fault


def correct(rank, world_size):
    group, tensor = dist.new_group([0, 1]), torch.ones(4)
    if rank < 2:
        dist.all_reduce(tensor, group=group)
