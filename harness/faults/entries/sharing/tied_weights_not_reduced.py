"""A weight on two stages gets two gradients.

Does: The first and the last stage hold the same weight, as embedding and as head. Each has the
gradient of its own use.

Wrong: The two are not added up: the copies get different updates, and are not the same weight any
more.

Shows: The first step is right. The loss falls; the copies part from the first update on.

Instead: All-reduce the tied weight's gradient over the two stages before the update.
"""

import torch
import torch.distributed as dist
from _shards import close, samples, weights

LABEL = {
    "class": "sharing",
    "scope": "program",
    "source": "Megatron#844; piper#13",
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
