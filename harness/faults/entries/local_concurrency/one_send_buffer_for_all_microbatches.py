"""One buffer for the sends of all microbatches.

Does: Rank 0 copies each microbatch into the same buffer and posts a send of it; it waits for all at
the end.

Wrong: The copy of the next microbatch overwrites one that may not have gone yet.

Shows: The receiver gets the last microbatch several times. With a quick receiver, all is right.

Instead: A buffer for each send that may be under way, or a wait before the buffer is filled again.
"""

import time

import torch
import torch.distributed as dist

LABEL = {
    "class": "local-concurrency",
    "scope": "program",
    "source": "MPI Bugs Initiative (local concurrency); gloo: tensor changed after isend",
    "world": 2,
    "code": "buffer-overwrite",
    "ranks": [0],
    "semantics": {"buffered": None},
}


def faulty(rank, world_size):
    if rank == 0:
        buffer, works = torch.empty(4), []
        for microbatch in torch.arange(12.0).split(4):
            buffer.copy_(microbatch)
            works.append(dist.isend(buffer, 1))  # fault
        for work in works:
            work.wait()
    else:
        time.sleep(0.2)
        for _ in range(3):
            dist.recv(torch.empty(4), 0)


def correct(rank, world_size):
    if rank == 0:
        buffers, works = torch.empty(3, 4), []
        for buffer, microbatch in zip(buffers, torch.arange(12.0).split(4), strict=True):
            buffer.copy_(microbatch)
            works.append(dist.isend(buffer, 1))
        for work in works:
            work.wait()
    else:
        for _ in range(3):
            dist.recv(torch.empty(4), 0)
