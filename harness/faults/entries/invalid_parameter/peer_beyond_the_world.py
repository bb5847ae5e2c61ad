"""The last rank sends to a rank that does not exist.

Does: Every rank receives from the one before and sends to the one behind; the last one does so too.

Wrong: There is no rank world_size: ranks count from 0.

Shows: gloo waits for the missing rank to connect until its store gives up, which takes minutes; the
simulator and NCCL refuse at once.

Instead: Send only where there is a next rank.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "invalid-parameter",
    "scope": "program",
    "source": "MPI Bugs Initiative (invalid parameter)",
    "world": 2,
    "code": "invalid-argument",
    "ranks": [1],
    "backends": {"gloo": "timeout"},
    "options": {"timeout": 5},
}


def faulty(rank, world_size):
    activation = torch.full((4,), float(rank))
    if rank > 0:
        dist.recv(activation, rank - 1)
    dist.send(activation, rank + 1)  # fault


def correct(rank, world_size):
    activation = torch.full((4,), float(rank))
    if rank > 0:
        dist.recv(activation, rank - 1)
    if rank < world_size - 1:
        dist.send(activation, rank + 1)
