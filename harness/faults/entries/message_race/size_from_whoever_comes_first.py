"""The message that tells a size is taken from any source.

Does: Rank 1 sends a count and then as many numbers; rank 2 sends a count of its own. Rank 0 takes
the first count that comes and makes the buffer for rank 1's numbers with it.

Wrong: If rank 2's count comes first, the buffer is of the wrong size.

Shows: It depends on timing: either all is well, or the buffer is too large and filled in part, or
too small, and the process is aborted. NCCL has no receive from any source.

Instead: Name the source of the count.
"""

import time

import torch
import torch.distributed as dist

LABEL = {
    "class": "message-race",
    "scope": "program",
    "source": "MPI Bugs Initiative (message race, any source)",
    "world": 3,
    "code": "shape-mismatch",
    "ranks": [0, 1],
    "deterministic": False,
    "details": {"sent": [4], "received": [6]},
}


def _gather(rank, source):
    if rank == 0:
        count = torch.zeros(1, dtype=torch.int64)
        first = dist.recv(count, source)
        numbers = torch.zeros(int(count))
        dist.recv(count, 3 - first)
        dist.recv(numbers, 1)  # fault
        return
    time.sleep((2 - rank) / 5)  # rank 1 has more to do
    dist.send(torch.tensor([4 if rank == 1 else 6]), 0)
    if rank == 1:
        dist.send(torch.ones(4), 0)  # fault


def faulty(rank, world_size):
    _gather(rank, None)


def correct(rank, world_size):
    _gather(rank, 1)
