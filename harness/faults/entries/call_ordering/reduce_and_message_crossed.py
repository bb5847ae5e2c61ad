"""A reduce and a message come in other orders on two ranks.

Does: Rank 0 starts a reduce and then sends; rank 1 receives and then comes to the reduce.

Wrong: On NCCL both use one queue of the group: the send stands behind the reduce, which needs rank
1, and rank 1 waits for the send.

Shows: Finishes on gloo, where the asynchronous reduce holds up nothing. Hangs on NCCL.

Instead: The same order on both ranks.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "call-ordering",
    "scope": "program",
    "source": "nccl#1192",
    "world": 2,
    "code": "nccl-hazard",
    "cause": "queue-order",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    total, tensor = torch.ones(4), torch.ones(4)
    if rank == 0:
        reduced = dist.reduce(total, 0, async_op=True)  # fault
        dist.send(tensor, 1)  # fault
        reduced.wait()
    else:
        dist.recv(tensor, 0)  # fault
        dist.reduce(total, 0)


def correct(rank, world_size):
    total, tensor = torch.ones(4), torch.ones(4)
    reduced = dist.reduce(total, 0, async_op=True)
    if rank == 0:
        dist.send(tensor, 1)
    else:
        dist.recv(tensor, 0)
    reduced.wait()
