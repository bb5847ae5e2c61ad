"""Replicas' gradients are summed and not averaged.

Does: Each rank's loss is the mean over its part of the batch. The gradients are all-reduced.

Wrong: The sum of means is world_size times the mean over the batch.

Shows: Every replica has the same gradient, as many times too large as there are replicas: the
learning rate seems to depend on their number.

Instead: Divide by world_size, before or after the all-reduce, once.
"""

import torch.distributed as dist
from _shards import close, gradient, samples, weights

LABEL = {
    "class": "sharing",
    "scope": "program",
    "source": "pytorch#144352; DeepSpeed#7773 (summed, not averaged)",
    "world": 2,
    "code": "rank-error",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    x, weight = samples(4 * world_size), weights()
    mine = gradient(weight, x.chunk(world_size)[rank])
    dist.all_reduce(mine)  # fault
    assert close(mine, gradient(weights(), x)), "not the batch's gradient"  # fault: here


def correct(rank, world_size):
    x, weight = samples(4 * world_size), weights()
    mine = gradient(weight, x.chunk(world_size)[rank])
    dist.all_reduce(mine)
    mine /= world_size
    assert close(mine, gradient(weights(), x)), "not the batch's gradient"
