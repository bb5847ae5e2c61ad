"""Every rank names itself as the source of a broadcast.

Does: The ranks want one seed, and each broadcasts its own.

Wrong: src is the rank whose tensor the others take: it is one, and the same everywhere.

Shows: On two ranks both only send: they hang until the timeout on gloo. NCCL may end and leave each
rank with its own seed.

Instead: Name one rank, such as 0, on all of them.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "parameter-matching",
    "scope": "program",
    "source": "gloo: broadcast root disagrees; MPI Bugs Initiative (parameter matching)",
    "world": 2,
    "code": "collective-mismatch",
    "ranks": [0, 1],
    "details": {"what": "root"},
}


def faulty(rank, world_size):
    seed = torch.tensor([rank + 7])
    dist.broadcast(seed, src=rank)  # fault
    return seed


def correct(rank, world_size):
    seed = torch.tensor([rank + 7])
    dist.broadcast(seed, src=0)
    return seed
