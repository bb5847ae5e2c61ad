"""The parts of a reduce_scatter differ from rank to rank.

Does: Each rank splits its gradients for reduce_scatter; rank 2 keeps two elements in each part, the
others three.

Wrong: The k-th part of all ranks is summed on rank k: parts must have one size everywhere.

Shows: gloo aborts or hangs, depending on which rank is ahead.

Instead: Pad the last part, or split by the same rule on all ranks.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "parameter-matching",
    "scope": "program",
    "source": "MPI Bugs Initiative (parameter matching)",
    "world": 3,
    "code": "collective-mismatch",
    "ranks": [2],
    "details": {"what": "element count"},
}


def faulty(rank, world_size):
    size = 2 if rank == 2 else 3
    parts = [torch.ones(size) for _ in range(world_size)]
    dist.reduce_scatter(torch.empty(size), parts)  # fault


def correct(rank, world_size):
    size = 3
    parts = [torch.ones(size) for _ in range(world_size)]
    dist.reduce_scatter(torch.empty(size), parts)
