"""A backward reads a buffer that is already being filled anew.

Does: Rank 1 keeps one receive buffer. It posts the receive of the second microbatch, and then runs
the backward of the first.

Wrong: The multiplication has saved the buffer for its backward, not a copy of it.

Shows: The gradient of the weight is that of the wrong microbatch, or of parts of both. Real ranks
cannot show a read.

Instead: A buffer for each microbatch in flight.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "local-concurrency",
    "scope": "program",
    "source": "pytorch#185331: receive buffer reused as activation",
    "world": 2,
    "code": "early-read",
    "ranks": [1],
    "semantics": {"nccl-eager": None, "nccl-lazy": None},
    "backends": {"gloo": None},
}


def faulty(rank, world_size):
    if rank == 0:
        for number in (1.0, 2.0):
            dist.send(torch.full((4,), number), 1)
        return None
    weight, buffer = torch.ones(4, requires_grad=True), torch.empty(4)
    dist.recv(buffer, 0)
    loss = (weight * buffer).sum()
    work = dist.irecv(buffer, 0)  # fault
    loss.backward()
    work.wait()
    return weight.grad


def correct(rank, world_size):
    if rank == 0:
        for number in (1.0, 2.0):
            dist.send(torch.full((4,), number), 1)
        return None
    weight, buffers = torch.ones(4, requires_grad=True), torch.empty(2, 4)
    dist.recv(buffers[0], 0)
    loss = (weight * buffers[0]).sum()
    work = dist.irecv(buffers[1], 0)
    loss.backward()
    work.wait()
    return weight.grad
