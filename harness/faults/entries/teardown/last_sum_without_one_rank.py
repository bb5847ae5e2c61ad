"""One rank has a batch less than the others.

Does: Each rank sums its gradients after each batch of its own data. Rank 1 has two batches, the
others three.

Wrong: The third sum waits for rank 1, which has finished.

Shows: Ranks 0 and 2 hang in the last step of the epoch, on every backend.

Instead: The same number of batches on every rank; or end the epoch when the first rank has no more.
"""

import time

import torch
import torch.distributed as dist

LABEL = {
    "class": "teardown",
    "scope": "program",
    "source": "course: uneven data; MPI Bugs Initiative (missing collective in a loop)",
    "world": 3,
    "code": "orphan-wait",
    "cause": "missing-collective",
    "ranks": [0, 2],
    "details": {"counts": {"0": 3, "1": 2, "2": 3}},
}


def _epoch(batches):
    gradient = torch.ones(4)
    for _ in range(batches):
        dist.all_reduce(gradient)  # fault


def faulty(rank, world_size):
    _epoch(2 if rank == 1 else 3)
    time.sleep(0.2)  # the epoch's end: a checkpoint


def correct(rank, world_size):
    _epoch(2)
