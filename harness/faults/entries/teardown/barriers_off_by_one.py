"""Two ranks come to the same barriers, one of them a barrier ahead.

Does: In each of two steps all ranks meet before and after a write. Rank 1 skips the first barrier
of the first step and makes up for it by one more at the end.

Wrong: Each of rank 1's barriers meets the one of rank 0 that comes before it: they hold together
nothing that is meant.

Shows: Everything ends. Rank 1 reads what rank 0 has not written yet.

Instead: The same barriers in the same order.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "teardown",
    "scope": "program",
    "source": "pytorch#138322",
    "world": 2,
    "code": "collective-skew",
    "ranks": [0, 1],
}


def _before_the_write():
    dist.barrier()  # fault


def _after_the_write():
    dist.barrier()  # fault


def faulty(rank, world_size):
    written = torch.zeros(1)
    for step in range(2):
        if rank == 0 or step == 1:
            _before_the_write()
        written += rank == 0
        _after_the_write()
    if rank == 1:
        _after_the_write()


def correct(rank, world_size):
    written = torch.zeros(1)
    for _ in range(2):
        _before_the_write()
        written += rank == 0
        _after_the_write()
