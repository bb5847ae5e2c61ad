"""A rank leaves by os._exit with a status.

Does: Rank 1 meets an error and leaves at once; rank 0 waits at a barrier.

Wrong: os._exit runs no handler, prints nothing and tells nobody.

Shows: Rank 0 sees a closed connection, without a reason.

Instead: Raise, and let the launcher end the others.
"""

import os

import torch
import torch.distributed as dist

LABEL = {
    "class": "teardown",
    "scope": "program",
    "source": "MPI Bugs Initiative (missing MPI_Finalize)",
    "world": 2,
    "code": "rank-death",
    "ranks": [1],
}


def faulty(rank, world_size):
    loss = torch.tensor([float("nan") if rank == 1 else 1.0])
    if loss.isnan().any():
        os._exit(3)
    dist.barrier()


def correct(rank, world_size):
    loss = torch.tensor([float("nan") if rank == 1 else 1.0])
    dist.all_reduce(loss)
    if loss.isnan().any():
        return
    dist.barrier()
