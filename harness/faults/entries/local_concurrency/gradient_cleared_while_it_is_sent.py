"""zero_grad clears a gradient that is still being sent.

Does: Rank 0 sends a gradient back with isend, clears the gradients for the next microbatch, and
waits.

Wrong: zero_grad(set_to_none=False) writes zeros into the same tensor.

Shows: The stage before may get zeros. With set_to_none=True, the default, the tensor is let go and
not written.

Instead: Wait for the send first; or drop the gradients instead of writing zeros.
"""

import time

import torch
import torch.distributed as dist

LABEL = {
    "class": "local-concurrency",
    "scope": "program",
    "source": "Automodel#3530: gradients cleared between microbatches",
    "world": 2,
    "code": "buffer-overwrite",
    "ranks": [0],
    "semantics": {"buffered": None},
}


def faulty(rank, world_size):
    if rank == 1:
        time.sleep(0.2)
        return dist.recv(torch.empty(4), 0)
    weight = torch.nn.Parameter(torch.ones(4))
    (weight * 3).sum().backward()
    work = dist.isend(weight.grad, 1)  # fault
    torch.optim.SGD([weight]).zero_grad(set_to_none=False)
    work.wait()


def correct(rank, world_size):
    if rank == 1:
        return dist.recv(torch.empty(4), 0)
    weight = torch.nn.Parameter(torch.ones(4))
    (weight * 3).sum().backward()
    work = dist.isend(weight.grad, 1)
    torch.optim.SGD([weight]).zero_grad(set_to_none=True)
    work.wait()
