"""Two ranks believe that they are the one that gathers.

Does: The first and the last rank both pass a list and dst=rank to gather; the middle one sends to
0.

Wrong: A rank that is a root in its own eyes waits for all others, which send elsewhere.

Shows: Both roots hang on gloo, each for the other.

Instead: Give the same dst on all ranks, and a list on that one only.
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
    "details": {"what": "root"},
}


def faulty(rank, world_size):
    root = rank if rank == world_size - 1 else 0
    held = [torch.empty(2) for _ in range(world_size)] if rank == root else None
    dist.gather(torch.full((2,), float(rank)), held, dst=root)  # fault


def correct(rank, world_size):
    root = 0
    held = [torch.empty(2) for _ in range(world_size)] if rank == root else None
    dist.gather(torch.full((2,), float(rank)), held, dst=root)
