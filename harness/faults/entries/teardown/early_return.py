"""A rank that finds nothing to do returns before the last barrier.

Does: Each rank handles its share of the samples; a rank whose share is empty returns at once.

Wrong: The others wait for it at the barrier in the end.

Shows: Rank 0 hangs when rank 1 has returned; with more samples than ranks all is well.

Instead: Skip the work and not the barrier.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "teardown",
    "scope": "program",
    "source": "MPI Bugs Initiative (missing collective, early return)",
    "world": 2,
    "code": "orphan-wait",
    "cause": "missing-collective",
    "ranks": [0],
}


def faulty(rank, world_size):
    samples = torch.ones(1)[rank::world_size]
    if len(samples) == 0:
        return
    samples.mul_(2)
    dist.barrier()  # fault


def correct(rank, world_size):
    samples = torch.ones(1)[rank::world_size]
    if len(samples) > 0:
        samples.mul_(2)
    dist.barrier()
