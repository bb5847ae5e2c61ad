"""A group broadcasts from a rank that is not in it.

Does: Ranks 1 and 2 form a group and broadcast in it from src=0, their number within the group.

Wrong: src is a global rank. Rank 0 of the world is not in this group.

Shows: ValueError on both.

Instead: Pass the global rank, or group_src=0 for the number within the group.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "invalid-parameter",
    "scope": "program",
    "source": "pytorch#187924: global and group ranks mixed; MPI Bugs Initiative",
    "world": 3,
    "code": "invalid-argument",
    "ranks": [1, 2],
}


def faulty(rank, world_size):
    group = dist.new_group([1, 2])
    if rank > 0:
        dist.broadcast(torch.ones(2), src=0, group=group)  # fault


def correct(rank, world_size):
    group = dist.new_group([1, 2])
    if rank > 0:
        dist.broadcast(torch.ones(2), group_src=0, group=group)
