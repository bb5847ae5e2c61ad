"""A tensor is sent and received into at the same time.

Does: Both ranks swap their tensors, and use one and the same for the send and the receive.

Wrong: What comes in may overwrite what has not gone out yet.

Shows: Mostly right for small messages, which have left by then. Where the receive comes first, the
peer gets its own tensor back. Real ranks cannot show it: torch does not note what a receive writes.

Instead: Receive into a second tensor.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "local-concurrency",
    "scope": "program",
    "source": "MPI Bugs Initiative (local concurrency)",
    "world": 2,
    "code": "buffer-overwrite",
    "ranks": [0, 1],
    "semantics": {"buffered": None, "nccl-eager": None, "nccl-lazy": None},
    "backends": {"gloo": None},
}


def faulty(rank, world_size):
    mine = torch.full((4,), float(rank))
    operations = [
        dist.P2POp(dist.isend, mine, 1 - rank),
        dist.P2POp(dist.irecv, mine, 1 - rank),
    ]
    for work in dist.batch_isend_irecv(operations):  # fault
        work.wait()
    return mine


def correct(rank, world_size):
    mine, theirs = torch.full((4,), float(rank)), torch.empty(4)
    operations = [
        dist.P2POp(dist.isend, mine, 1 - rank),
        dist.P2POp(dist.irecv, theirs, 1 - rank),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return theirs
