"""A split backward does not run the hooks that reduce gradients.

Does: A hook on each replica's weight sums its gradient over the ranks. Rank 0 calls backward().
Rank 1 splits its backward, and gets the weight's gradient from torch.autograd.grad.

Wrong: Hooks on accumulated gradients run when backward() accumulates. autograd.grad returns the
gradient and accumulates nothing.

Shows: Rank 0 hangs in its hook's all_reduce. Where both ranks split, nothing hangs, and the
replicas part in silence.

Instead: After a split backward, reduce the gradients by a call of one's own.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "sharing",
    "scope": "program",
    "source": "pytorch#144530: split backward bypasses gradient hooks",
    "world": 2,
    "code": "orphan-wait",
    "cause": "missing-collective",
    "ranks": [0],
}


def faulty(rank, world_size):
    weight = torch.ones(4, requires_grad=True)
    weight.register_post_accumulate_grad_hook(
        lambda weight: dist.all_reduce(weight.grad)  # fault
    )
    loss = (weight * (rank + 1)).sum()
    if rank == 0:
        loss.backward()
    else:
        [weight.grad] = torch.autograd.grad(loss, [weight])
    return weight.grad


def correct(rank, world_size):
    weight = torch.ones(4, requires_grad=True)
    loss = (weight * (rank + 1)).sum()
    if rank == 0:
        loss.backward()
    else:
        [weight.grad] = torch.autograd.grad(loss, [weight])
    dist.all_reduce(weight.grad)
    return weight.grad
