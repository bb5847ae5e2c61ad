"""Only rank 0 waits at the barrier after it has loaded the weights.

Does: Rank 0 prepares what all ranks need, and comes to a barrier, all in one branch.

Wrong: The other ranks never come to the barrier.

Shows: Rank 0 hangs when the others have finished; in a longer program its barrier meets another one
of theirs.

Instead: The barrier stands behind the branch, on every rank.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "start-up",
    "scope": "program",
    "source": "transformers-bloom-inference#40",
    "world": 2,
    "code": "orphan-wait",
    "cause": "missing-collective",
    "ranks": [0],
}


def faulty(rank, world_size):
    weights = torch.zeros(4)
    if rank == 0:
        weights += 1
        dist.barrier()  # fault


def correct(rank, world_size):
    weights = torch.zeros(4)
    if rank == 0:
        weights += 1
    dist.barrier()
