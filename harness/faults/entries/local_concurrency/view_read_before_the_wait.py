"""A view of a receive buffer is read too early.

Does: Rank 1 receives a packed message, and looks at its header, a slice, to see how much is in it,
before the wait.

Wrong: The slice is part of the buffer: it is not there before the message is.

Shows: The header reads 0, or what the last message had. Real ranks cannot show a read.

Instead: Wait for the message first. To know a size beforehand, send it in a message of its own.
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


def faulty(rank, world_size):
    if rank == 0:
        dist.send(torch.tensor([3.0, 1.0, 1.0, 1.0]), 1)
    else:
        message = torch.zeros(4)
        header, payload = message[:1], message[1:]
        work = dist.irecv(message, 0)  # fault
        count = int(header)
        work.wait()
        return payload[:count]


def correct(rank, world_size):
    if rank == 0:
        dist.send(torch.tensor([3.0, 1.0, 1.0, 1.0]), 1)
    else:
        message = torch.zeros(4)
        header, payload = message[:1], message[1:]
        work = dist.irecv(message, 0)
        work.wait()
        count = int(header)
        return payload[:count]
