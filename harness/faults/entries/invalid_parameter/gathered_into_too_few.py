"""all_gather into a list that is too short.

Does: Each rank gathers the losses into a list for all ranks but itself.

Wrong: all_gather gives every rank one tensor of each, its own among them.

Shows: An error on every rank that says how long the list has to be.

Instead: Make the list of world_size tensors.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "invalid-parameter",
    "scope": "program",
    "source": "MPI Bugs Initiative (invalid parameter)",
    "world": 2,
    "code": "invalid-argument",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    losses = [torch.empty(1) for _ in range(world_size - 1)]
    dist.all_gather(losses, torch.ones(1))  # fault


def correct(rank, world_size):
    losses = [torch.empty(1) for _ in range(world_size)]
    dist.all_gather(losses, torch.ones(1))
