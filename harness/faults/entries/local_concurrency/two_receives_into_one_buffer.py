"""Two receives are pending into one buffer.

Does: Rank 1 posts receives for two microbatches into the same buffer, waits for the first, adds the
buffer to its total, and does the same for the second.

Wrong: The second message may be written as soon as its receive is posted: also over the first,
before that is read.

Shows: The total has the second microbatch twice when both messages are quick. Real ranks cannot
show a read.

Instead: A buffer for each receive that is under way.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "local-concurrency",
    "scope": "program",
    "source": "MPI Bugs Initiative (local concurrency)",
    "world": 2,
    "code": "early-read",
    "ranks": [1],
    "semantics": {"nccl-eager": None, "nccl-lazy": None},
    "backends": {"gloo": None},
}


def _total(works, buffers):
    total = torch.zeros(4)
    for work, buffer in zip(works, buffers, strict=True):
        work.wait()
        total += buffer
    return total


def faulty(rank, world_size):
    if rank == 0:
        for number in (1.0, 2.0):
            dist.send(torch.full((4,), number), 1)
    else:
        buffers = [torch.empty(4)] * 2
        return _total([dist.irecv(buffer, 0) for buffer in buffers], buffers)  # fault


def correct(rank, world_size):
    if rank == 0:
        for number in (1.0, 2.0):
            dist.send(torch.full((4,), number), 1)
    else:
        buffers = [torch.empty(4), torch.empty(4)]
        return _total([dist.irecv(buffer, 0) for buffer in buffers], buffers)
