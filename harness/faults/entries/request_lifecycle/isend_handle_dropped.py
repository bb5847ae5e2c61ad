"""An isend whose handle nobody keeps.

Does: Rank 0 calls isend and lets the handle go. Rank 1 is late with its receive.

Wrong: The handle is all that holds a pending send on gloo. With it goes the send.

Shows: Rank 1 hangs in its recv on gloo. The program passes where the receive happens to be posted
first, where sends are buffered, and on NCCL, which keeps what was posted.

Instead: Keep the handle, and wait for it.
"""

import time

import torch
import torch.distributed as dist

LABEL = {
    "class": "request-lifecycle",
    "scope": "program",
    "source": "gloo: isend handle dropped; micropp fec9458",
    "world": 2,
    "code": "dropped-request",
    "ranks": [0],
    "semantics": {"buffered": "unawaited-request"},
    "backends": {"nccl": "unawaited-request"},
}


def faulty(rank, world_size):
    if rank == 0:
        dist.isend(torch.ones(4), 1)  # fault
    else:
        time.sleep(0.2)
        dist.recv(torch.empty(4), 0)


def correct(rank, world_size):
    if rank == 0:
        work = dist.isend(torch.ones(4), 1)
        work.wait()
    else:
        time.sleep(0.2)
        dist.recv(torch.empty(4), 0)
