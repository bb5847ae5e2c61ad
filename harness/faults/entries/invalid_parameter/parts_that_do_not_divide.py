"""A tensor that cannot be divided among the ranks.

Does: Five gradients are scattered to two ranks by reduce_scatter_tensor, each of which has room for
two.

Wrong: The input has to be world_size times the output.

Shows: Refused on every rank.

Instead: Pad the gradients to a multiple of world_size.
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
    gradients = torch.ones(5)
    dist.reduce_scatter_tensor(torch.empty(5 // world_size), gradients)  # fault


def correct(rank, world_size):
    gradients = torch.nn.functional.pad(torch.ones(5), (0, -5 % world_size))
    dist.reduce_scatter_tensor(torch.empty(len(gradients) // world_size), gradients)
