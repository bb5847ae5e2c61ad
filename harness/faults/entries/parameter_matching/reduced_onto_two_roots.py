"""The ranks reduce onto different roots.

Does: Ranks 0 and 1 reduce the loss onto the last rank, the last rank onto 0.

Wrong: Only the root has the result, and all ranks have to know which it is.

Shows: Nothing hangs for certain: depending on sizes and timing the sum is missing, wrong or waited
for for ever.

Instead: Compute the root in one place, from world_size.
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
    loss = torch.full((1,), rank + 1.0)
    root = world_size - 1 if rank < world_size - 1 else 0
    dist.reduce(loss, dst=root)  # fault


def correct(rank, world_size):
    loss = torch.full((1,), rank + 1.0)
    dist.reduce(loss, dst=world_size - 1)
