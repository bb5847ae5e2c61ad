"""A rank sends in a group of which it is no member.

Does: Ranks 0 and 1 share a group. Rank 2 sends rank 1 a tensor in it.

Wrong: A group is for its members only; to rank 2 it is no group at all.

Shows: The call is refused on rank 2, on every backend, and rank 1 waits in vain.

Instead: Send in a group of which both are members.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "groups",
    "scope": "program",
    "source": "MPI Bugs Initiative (wrong communicator)",
    "world": 3,
    "code": "invalid-argument",
    "ranks": [2],
}


def faulty(rank, world_size):
    group, tensor = dist.new_group([0, 1]), torch.ones(4)
    if rank == 2:
        dist.send(tensor, 1, group=group)  # fault
    elif rank == 1:
        dist.recv(tensor, 2)


def correct(rank, world_size):
    group, tensor = dist.new_group([1, 2]), torch.ones(4)
    if rank == 2:
        dist.send(tensor, 1, group=group)
    elif rank == 1:
        dist.recv(tensor, 2, group=group)
