"""The next backward accumulates into a gradient that is being sent.

Does: Rank 0 sends the gradient of its first microbatch with isend, runs the backward of the second,
and waits.

Wrong: The second backward adds to the same .grad in place.

Shows: The receiver may get the sum of both microbatches. Autograd writes unseen: no line of the
program changes the tensor.

Instead: Wait before the next backward, or send a clone of the gradient.
"""

import time

import torch
import torch.distributed as dist

LABEL = {
    "class": "local-concurrency",
    "scope": "program",
    "source": "TrainVerify: reducer launched before the last microbatch finished",
    "world": 2,
    "code": "buffer-overwrite",
    "ranks": [0],
    "semantics": {"buffered": None},
}


def faulty(rank, world_size):
    if rank == 1:
        time.sleep(0.2)
        return dist.recv(torch.empty(4), 0)
    weight = torch.ones(4, requires_grad=True)
    (weight * 2).sum().backward()
    work = dist.isend(weight.grad, 1)  # fault
    (weight * 3).sum().backward()
    work.wait()


def correct(rank, world_size):
    if rank == 1:
        return dist.recv(torch.empty(4), 0)
    weight = torch.ones(4, requires_grad=True)
    (weight * 2).sum().backward()
    work = dist.isend(weight.grad.clone(), 1)
    (weight * 3).sum().backward()
    work.wait()
