"""The optimizer steps while a parameter is on its way.

Does: Rank 0 posts a send of its weight to a replica, steps its optimizer, and waits at the end of
the step.

Wrong: The step writes the weight that is being sent.

Shows: The replica gets the weight of this step or of the next, or some of both.

Instead: Wait for the send before optimizer.step().
"""

import time

import torch
import torch.distributed as dist

LABEL = {
    "class": "local-concurrency",
    "scope": "program",
    "source": "MPI Bugs Initiative (local concurrency)",
    "world": 2,
    "code": "buffer-overwrite",
    "ranks": [0],
    "semantics": {"buffered": None},
}


def faulty(rank, world_size):
    weight = torch.nn.Parameter(torch.ones(4))
    if rank == 0:
        weight.grad = torch.ones(4)
        work = dist.isend(weight.detach(), 1)  # fault
        torch.optim.SGD([weight], lr=0.1).step()
        work.wait()
    else:
        time.sleep(0.2)
        dist.recv(weight.detach(), 0)


def correct(rank, world_size):
    weight = torch.nn.Parameter(torch.ones(4))
    if rank == 0:
        weight.grad = torch.ones(4)
        work = dist.isend(weight.detach(), 1)
        work.wait()
        torch.optim.SGD([weight], lr=0.1).step()
    else:
        dist.recv(weight.detach(), 0)
