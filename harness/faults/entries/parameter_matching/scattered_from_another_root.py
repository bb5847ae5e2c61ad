"""The ranks expect their part from a rank that does not scatter.

Does: Rank 0 scatters the microbatches; the others expect them from the last rank.

Wrong: A scatter waits for the root that this rank named.

Shows: All hang on gloo: rank 0 in its sends, the others in their receives.

Instead: Name the same src on all ranks.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "parameter-matching",
    "scope": "program",
    "source": "MPI Bugs Initiative (parameter matching)",
    "world": 3,
    "code": "collective-mismatch",
    "ranks": [0],
    "details": {"what": "root"},
}


def faulty(rank, world_size):
    microbatches = list(torch.arange(6.0).split(2))
    if rank == 0:
        dist.scatter(torch.empty(2), microbatches, src=0)  # fault
    elif rank == 1:
        dist.scatter(torch.empty(2), src=2)  # fault
    else:
        dist.scatter(torch.empty(2), microbatches, src=2)  # fault


def correct(rank, world_size):
    microbatches = list(torch.arange(6.0).split(2))
    if rank == 0:
        dist.scatter(torch.empty(2), microbatches, src=0)
    elif rank == 1:
        dist.scatter(torch.empty(2), src=0)
    else:
        dist.scatter(torch.empty(2), src=0)
