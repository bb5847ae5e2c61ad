"""One rank makes a group that the others do not.

Does: Rank 0 alone makes a group of ranks 0 and 1.

Wrong: All ranks have to call new_group; its members meet in the call.

Shows: Rank 0 hangs in new_group when rank 1 has finished.

Instead: Every rank calls new_group, in the same order.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "start-up",
    "scope": "program",
    "source": "MPI Bugs Initiative (communicator made by a part of the ranks)",
    "world": 2,
    "code": "orphan-wait",
    "cause": "missing-collective",
    "ranks": [0],
}


def faulty(rank, world_size):
    if rank == 0:
        group = dist.new_group([0, 1])  # fault
        dist.send(torch.ones(4), 1, group=group)


def correct(rank, world_size):
    group = dist.new_group([0, 1])
    if rank == 0:
        dist.send(torch.ones(4), 1, group=group)
    else:
        dist.recv(torch.ones(4), 0, group=group)
