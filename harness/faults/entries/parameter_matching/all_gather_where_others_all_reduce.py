"""One rank gathers what the others sum.

Does: The last rank calls all_gather on the gradient; the others all_reduce it.

Wrong: Collectives are matched by their number in the group alone. Both kinds belong to one number
here.

Shows: gloo hangs, or the ranks read parts of each other's algorithm. Nothing names the two calls.

Instead: Call the same collective on every rank.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "parameter-matching",
    "scope": "program",
    "source": "TrainVerify: all-reduce swapped with all-gather",
    "world": 3,
    "code": "collective-mismatch",
    "ranks": [2],
    "details": {"what": "kind"},
}


def faulty(rank, world_size):
    gradient = torch.full((4,), float(rank))
    if rank == world_size - 1:
        dist.all_gather([torch.empty(4) for _ in range(world_size)], gradient)  # fault
    else:
        dist.all_reduce(gradient)  # fault


def correct(rank, world_size):
    gradient = torch.full((4,), float(rank))
    dist.all_reduce(gradient)
