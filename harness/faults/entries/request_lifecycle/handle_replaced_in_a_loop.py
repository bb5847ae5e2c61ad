"""One variable for the handles of a loop: each isend drops the one before.

Does: Rank 0 sends three microbatches with isend, keeps the last handle, and waits for that. Rank 1
is late with its receives.

Wrong: To assign the next handle lets the one before go while its send is pending.

Shows: On gloo rank 1 takes the last microbatch for the first, and then waits for ever. Where each
receive is posted in time, or sends are buffered, all is well.

Instead: Append the handles to a list, and wait for all of them.
"""

import time

import torch
import torch.distributed as dist

LABEL = {
    "class": "request-lifecycle",
    "scope": "program",
    "source": "micropp fec9458: isend handle dropped",
    "world": 2,
    "code": "dropped-request",
    "ranks": [0],
    "semantics": {"buffered": "unawaited-request"},
    "backends": {"nccl": "unawaited-request"},
}


def faulty(rank, world_size):
    if rank == 0:
        for microbatch in torch.arange(12.0).split(4):
            work = dist.isend(microbatch, 1)  # fault
        work.wait()
    else:
        time.sleep(0.2)
        for _ in range(3):
            dist.recv(torch.empty(4), 0)


def correct(rank, world_size):
    if rank == 0:
        works = [dist.isend(microbatch, 1) for microbatch in torch.arange(12.0).split(4)]
        for work in works:
            work.wait()
    else:
        time.sleep(0.2)
        for _ in range(3):
            dist.recv(torch.empty(4), 0)
