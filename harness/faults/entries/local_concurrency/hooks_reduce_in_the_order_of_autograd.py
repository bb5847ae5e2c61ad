"""Hooks reduce gradients in the order in which each rank's backward gets to them.

Does: Each parameter's hook sums its gradient over the ranks. Rank 1 uses the parameters in another
order than rank 0, so that its backward reaches them in another order too.

Wrong: A hook communicates from within the backward: its order is autograd's, and collectives are
matched by their number.

Shows: With parameters of two sizes gloo aborts or hangs. With equal sizes the sums are silently of
the wrong gradients.

Instead: Collect the gradients in the hooks, and reduce them after the backward in one fixed order.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "local-concurrency",
    "scope": "program",
    "source": "pytorch#144530: gradient hooks; gloo: collectives in swapped order",
    "world": 2,
    "code": "collective-mismatch",
    "ranks": [0, 1],
    "details": {"what": "element count"},
}


def _loss(rank, first, second):
    used = (first, second) if rank == 0 else (second, first)
    total = torch.ones(())
    for parameter in used:
        total = (total * parameter).sum()
    return total


def faulty(rank, world_size):
    parameters = [torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)]
    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(
            lambda parameter: dist.all_reduce(parameter.grad)  # fault
        )
    _loss(rank, *parameters).backward()
    return [parameter.grad for parameter in parameters]


def correct(rank, world_size):
    parameters = [torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)]
    _loss(rank, *parameters).backward()
    for parameter in parameters:
        dist.all_reduce(parameter.grad)
    return [parameter.grad for parameter in parameters]
