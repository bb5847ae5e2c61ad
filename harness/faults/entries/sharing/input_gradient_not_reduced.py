"""The backward of a column-parallel layer lacks its reduction.

Does: Each rank holds some of a layer's columns. The input is the same on all, so that the forward
needs no communication.

Wrong: The backward does: each rank's gradient of the input is the part of its own columns, and what
goes further back is their sum.

Shows: The layer's own weights are right. All layers below train on a part of their gradient,
another on each rank.

Instead: All-reduce the input's gradient in the backward.
"""

import torch.distributed as dist
from _shards import close, samples, weights

LABEL = {
    "class": "sharing",
    "scope": "program",
    "source": "TrainVerify (missing backward reduce)",
    "world": 2,
    "code": "rank-error",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    x, weight = samples(4).requires_grad_(), weights()
    columns = weight.detach().chunk(world_size, dim=1)[rank]
    (x @ columns).square().sum().backward()
    whole = samples(4).requires_grad_()
    (whole @ weight).square().sum().backward()
    assert close(x.grad, whole.grad), "not the whole gradient"  # fault: here


def correct(rank, world_size):
    x, weight = samples(4).requires_grad_(), weights()
    columns = weight.detach().chunk(world_size, dim=1)[rank]
    (x @ columns).square().sum().backward()
    dist.all_reduce(x.grad)
    whole = samples(4).requires_grad_()
    (whole @ weight).square().sum().backward()
    assert close(x.grad, whole.grad), "not the whole gradient"
