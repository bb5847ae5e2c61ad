"""The root of a group's broadcast is given by its rank in the group.

Does: Ranks 1 and 2 of three share a group, and broadcast from its first member, src=0.

Wrong: src is a global rank, and rank 0 is no member.

Shows: The call is refused on both. Where rank 0 is a member, it goes unnoticed.

Instead: group_src=0.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "groups",
    "scope": "program",
    "source": "MPI Bugs Initiative (root out of the communicator); pytorch#187924",
    "world": 3,
    "code": "invalid-argument",
    "ranks": [1, 2],
}


def faulty(rank, world_size):
    group, tensor = dist.new_group([1, 2]), torch.full((4,), float(rank))
    if rank > 0:
        dist.broadcast(tensor, src=0, group=group)  # fault


def correct(rank, world_size):
    group, tensor = dist.new_group([1, 2]), torch.full((4,), float(rank))
    if rank > 0:
        dist.broadcast(tensor, group_src=0, group=group)
