"""A list is sent where a tensor is needed.

Does: Rank 0 sends the shape of what follows as the list that it is.

Wrong: send takes a tensor; a shape is a tuple of numbers.

Shows: TypeError on rank 0, at the call.

Instead: Make a tensor of it, or use send_object_list.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "invalid-parameter",
    "scope": "program",
    "source": "MPI Bugs Initiative (invalid parameter)",
    "world": 2,
    "code": "invalid-argument",
    "ranks": [0],
}


def faulty(rank, world_size):
    if rank == 0:
        dist.send([8, 128], 1)  # fault
    else:
        dist.recv(torch.empty(2, dtype=torch.int64), 0)


def correct(rank, world_size):
    if rank == 0:
        dist.send(torch.tensor([8, 128]), 1)
    else:
        dist.recv(torch.empty(2, dtype=torch.int64), 0)
