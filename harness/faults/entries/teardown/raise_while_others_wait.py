"""A rank raises, and the others wait for its message.

Does: Rank 1 finds that its result is out of range and raises; rank 0 waits for its result.

Wrong: The check is made on one rank only, and nobody tells the others.

Shows: The job ends with rank 0's "connection closed" beside the true error, or hangs until the
timeout where rank 1 does not exit.

Instead: Tell all ranks, by a sum of flags, and let all stop together.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "teardown",
    "scope": "program",
    "source": "MPI Bugs Initiative; torchtitan#1342",
    "world": 2,
    "code": "rank-error",
    "ranks": [1],
}


def faulty(rank, world_size):
    result = torch.tensor([1.0 / rank if rank else 1.0])
    if rank == 1:
        if result.item() > 0.5:
            raise RuntimeError("the result is out of range")  # fault
        dist.send(result, 0)
    else:
        dist.recv(result, 1)


def correct(rank, world_size):
    result = torch.tensor([1.0 / rank if rank else 1.0])
    bad = torch.tensor([float(rank == 1 and result.item() > 0.5)])
    dist.all_reduce(bad)
    if bad.item() > 0:
        return
    if rank == 1:
        dist.send(result, 0)
    else:
        dist.recv(result, 1)
