"""A gradient is changed while it is being reduced.

Does: Each rank starts to sum the gradient of its first microbatch, runs the backward of the second,
and waits for the sum.

Wrong: An asynchronous all_reduce reads and writes its tensor until the wait for it has ended.

Shows: The second gradient is summed, added before, overwritten, or lost: a matter of timing.

Instead: Reduce once, after the last microbatch; or wait before the next backward.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "local-concurrency",
    "scope": "program",
    "source": "TrainVerify: reducer launched before the last microbatch finished",
    "world": 2,
    "code": "buffer-overwrite",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    weight = torch.ones(4, requires_grad=True)
    (weight * (rank + 1)).sum().backward()
    work = dist.all_reduce(weight.grad, async_op=True)  # fault
    (weight * 2).sum().backward()
    work.wait()
    return weight.grad


def correct(rank, world_size):
    weight = torch.ones(4, requires_grad=True)
    (weight * (rank + 1)).sum().backward()
    (weight * 2).sum().backward()
    work = dist.all_reduce(weight.grad, async_op=True)
    work.wait()
    return weight.grad
