"""A tensor is changed while it is being sent.

Does: Rank 0 posts a send of its gradient, scales the gradient in place, and then waits.

Wrong: Until its wait has ended, a send may read the tensor at any time.

Shows: The receiver gets the scaled values, or not, by who comes first. On gloo a late receiver gets
the scaled ones.

Instead: Wait before the tensor is changed, or send a clone.
"""

import time

import torch
import torch.distributed as dist

LABEL = {
    "class": "local-concurrency",
    "scope": "program",
    "source": "gloo: tensor changed after isend; MPI Bugs Initiative (local concurrency)",
    "world": 2,
    "code": "buffer-overwrite",
    "ranks": [0],
    "semantics": {"buffered": None},
}


def faulty(rank, world_size):
    gradient = torch.ones(4)
    if rank == 0:
        work = dist.isend(gradient, 1)  # fault
        gradient.mul_(0.5)
        work.wait()
    else:
        time.sleep(0.2)
        dist.recv(gradient, 0)
    return gradient


def correct(rank, world_size):
    gradient = torch.ones(4)
    if rank == 0:
        work = dist.isend(gradient, 1)
        work.wait()
        gradient.mul_(0.5)
    else:
        dist.recv(gradient, 0)
    return gradient
