"""Replicas never exchange their gradients.

Does: Each rank of a data-parallel group computes the gradient of its part of the batch.

Wrong: The all-reduce is missing: each replica updates its weights by its own part.

Shows: Nothing hangs. Each rank's loss falls, on its own data; the replicas drift apart, and
whichever is saved has seen a part of the data.

Instead: All-reduce every gradient, and divide by the number of replicas, before the update.
"""

import torch.distributed as dist
from _shards import close, gradient, samples, weights

LABEL = {
    "class": "sharing",
    "scope": "program",
    "source": "TrainVerify (missing all-reduce)",
    "world": 2,
    "code": "rank-error",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    x, weight = samples(4 * world_size), weights()
    mine = gradient(weight, x.chunk(world_size)[rank])
    assert close(mine, gradient(weights(), x)), "not the batch's gradient"  # fault: here


def correct(rank, world_size):
    x, weight = samples(4 * world_size), weights()
    mine = gradient(weight, x.chunk(world_size)[rank])
    dist.all_reduce(mine)
    mine /= world_size
    assert close(mine, gradient(weights(), x)), "not the batch's gradient"
