"""Of a batch, only the last request is waited for.

Does: Rank 1 receives an activation and its mask in one batch_isend_irecv, waits for the last of the
returned requests, and multiplies the two.

Wrong: gloo returns a request for each operation. That the last one has ended says nothing about the
others; on NCCL there is one request for all.

Shows: Mostly not at all: the first message is there in time. When it is late, the product has the
buffer's old values in it. On real ranks only the missing wait can be seen, not the read.

Instead: Wait for every request that batch_isend_irecv returns.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "request-lifecycle",
    "scope": "program",
    "source": "pytorch#132644",
    "world": 2,
    "code": "early-read",
    "ranks": [1],
    "semantics": {"nccl-eager": "unawaited-request", "nccl-lazy": "unawaited-request"},
    "backends": {"gloo": "unawaited-request", "nccl": None},
}


def faulty(rank, world_size):
    activation, mask = torch.ones(4), torch.ones(4)
    call = dist.isend if rank == 0 else dist.irecv
    operations = [
        dist.P2POp(call, activation, 1 - rank),
        dist.P2POp(call, mask, 1 - rank),
    ]
    works = dist.batch_isend_irecv(operations)  # fault
    if rank == 1:
        works[-1].wait()
        return activation * mask
    for work in works:
        work.wait()


def correct(rank, world_size):
    activation, mask = torch.ones(4), torch.ones(4)
    call = dist.isend if rank == 0 else dist.irecv
    operations = [
        dist.P2POp(call, activation, 1 - rank),
        dist.P2POp(call, mask, 1 - rank),
    ]
    works = dist.batch_isend_irecv(operations)
    for work in works:
        work.wait()
    if rank == 1:
        return activation * mask
