"""The root of a scatter has nothing to give.

Does: The ranks scatter microbatches from rank 0, which leaves out the list as the others do.

Wrong: The list belongs to the root, and the root alone has to pass it.

Shows: Refused on rank 0, before anything is sent; the others wait.

Instead: Pass the list where rank == src, and None elsewhere.
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
    dist.scatter(torch.empty(2), src=0)  # fault


def correct(rank, world_size):
    parts = [torch.ones(2) for _ in range(world_size)] if rank == 0 else None
    dist.scatter(torch.empty(2), parts, src=0)
