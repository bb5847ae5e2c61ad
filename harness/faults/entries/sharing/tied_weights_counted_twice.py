"""The gradient of a tied weight is reduced twice.

Does: First and last stage hold the same weight and all-reduce its gradient. The hook of the
embedding does so, and the end of the step again.

Wrong: After the first reduction both have the sum. The second adds the sums of both.

Shows: The copies stay equal, with an update twice too large for this one weight.

Instead: Reduce once.
"""

import torch
import torch.distributed as dist
from _shards import close, samples, weights

LABEL = {
    "class": "sharing",
    "scope": "program",
    "source": "pytorch#180952 (a shared weight counted twice)",
    "world": 2,
    "code": "rank-error",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    weight, x = weights(), samples(4)
    if rank == 0:  # the first stage: embedding
        h = x @ weight
        dist.send(h.detach(), 1)
        from_next = torch.empty_like(h)
        dist.recv(from_next, 1)
        h.backward(from_next)
    elif rank == 1:  # the last stage: head, of the same weight
        h = torch.empty_like(x)
        dist.recv(h, 0)
        (h.requires_grad_() @ weight.T).square().mean().backward()
        dist.send(h.grad, 0)
    dist.all_reduce(weight.grad)
    dist.all_reduce(weight.grad)  # fault
    whole = weights()
    (x @ whole @ whole.T).square().mean().backward()
    assert close(weight.grad, whole.grad), "not the gradient of both uses"  # fault: here


def correct(rank, world_size):
    weight, x = weights(), samples(4)
    if rank == 0:  # the first stage: embedding
        h = x @ weight
        dist.send(h.detach(), 1)
        from_next = torch.empty_like(h)
        dist.recv(from_next, 1)
        h.backward(from_next)
    elif rank == 1:  # the last stage: head, of the same weight
        h = torch.empty_like(x)
        dist.recv(h, 0)
        (h.requires_grad_() @ weight.T).square().mean().backward()
        dist.send(h.grad, 0)
    dist.all_reduce(weight.grad)
    whole = weights()
    (x @ whole @ whole.T).square().mean().backward()
    assert close(weight.grad, whole.grad), "not the gradient of both uses"
