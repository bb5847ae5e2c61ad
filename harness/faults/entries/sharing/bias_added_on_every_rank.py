"""A row-parallel layer adds its bias on every rank.

Does: Each rank holds some of a layer's rows and the bias, multiplies its part of the input, and the
parts are added up.

Wrong: Each rank adds the bias before the reduction, so that it is added world_size times.

Shows: Right on one rank, and for a bias of zero, as it often starts.

Instead: Add the bias once, after the reduction.
"""

import torch.distributed as dist
from _shards import close, samples, weights

LABEL = {
    "class": "sharing",
    "scope": "program",
    "source": "TrainVerify (mutated compute on several ranks)",
    "world": 2,
    "code": "rank-error",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    x, weight, bias = samples(4), weights().detach(), samples(1)
    rows = weight.chunk(world_size, dim=0)[rank]
    y = x.chunk(world_size, dim=1)[rank] @ rows
    y += bias  # fault
    dist.all_reduce(y)
    assert close(y, x @ weight + bias), "not the whole output"  # fault: here


def correct(rank, world_size):
    x, weight, bias = samples(4), weights().detach(), samples(1)
    rows = weight.chunk(world_size, dim=0)[rank]
    y = x.chunk(world_size, dim=1)[rank] @ rows
    dist.all_reduce(y)
    y += bias
    assert close(y, x @ weight + bias), "not the whole output"
