"""One rank skips the first of two barriers.

Does: All ranks come to a barrier before and one after a file is written; rank 1 has nothing to
write and skips the first.

Wrong: Barriers are counted, not named. Rank 1's second meets rank 0's first, and rank 0's second
meets nothing.

Shows: Rank 1 goes on before the file is there, and rank 0 hangs at its second barrier.

Instead: Both barriers on every rank.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "teardown",
    "scope": "program",
    "source": "pytorch#138322",
    "world": 2,
    "code": "orphan-wait",
    "cause": "missing-collective",
    "ranks": [0],
    "details": {"counts": {"0": 2, "1": 1}},
}


def faulty(rank, world_size):
    written = torch.zeros(1)
    if rank == 0:
        dist.barrier()
        written += 1
    dist.barrier()  # fault


def correct(rank, world_size):
    written = torch.zeros(1)
    dist.barrier()
    if rank == 0:
        written += 1
    dist.barrier()
