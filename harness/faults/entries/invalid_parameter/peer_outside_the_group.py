"""The peer is no member of the group.

Does: Rank 0 reports its loss to the last rank, and passes the group of the first two.

Wrong: A group carries messages between its members only.

Shows: ValueError on rank 0; the last rank waits for what never comes.

Instead: Use a group that holds both ranks, such as the default one.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "invalid-parameter",
    "scope": "program",
    "source": "MPI Bugs Initiative (invalid parameter)",
    "world": 3,
    "code": "invalid-argument",
    "ranks": [0],
}


def faulty(rank, world_size):
    pair = dist.new_group([0, 1])
    if rank == 0:
        dist.send(torch.ones(1), 2, group=pair)  # fault
    elif rank == 2:
        dist.recv(torch.empty(1), 0)


def correct(rank, world_size):
    dist.new_group([0, 1])
    if rank == 0:
        dist.send(torch.ones(1), 2)
    elif rank == 2:
        dist.recv(torch.empty(1), 0)
