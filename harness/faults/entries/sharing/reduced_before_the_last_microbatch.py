"""The all-reduce is launched before the last microbatch.

Does: Each replica accumulates two microbatches. To overlap it with compute, the all-reduce starts
as soon as a gradient is there.

Wrong: It is there after the first microbatch. What the second adds stays on its own rank.

Shows: The gradient is the batch's for the first half and the rank's own for the second: replicas
drift apart slowly.

Instead: Launch the reduction from the last microbatch's backward.
"""

import torch
import torch.distributed as dist
from _shards import close, gradient, samples, weights

LABEL = {
    "class": "sharing",
    "scope": "program",
    "source": "TrainVerify (reducer launched before the last microbatch finished)",
    "world": 2,
    "code": "rank-error",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    x, weight = samples(4 * world_size), weights()
    mine = torch.zeros_like(weight)
    for index, part in enumerate(x.chunk(world_size)[rank].chunk(2)):
        mine += gradient(weight, part) / (2 * world_size)
        if index == 0:  # fault
            dist.all_reduce(mine)
    assert close(mine, gradient(weights(), x)), "not the batch's gradient"  # fault: here


def correct(rank, world_size):
    x, weight = samples(4 * world_size), weights()
    mine = torch.zeros_like(weight)
    for index, part in enumerate(x.chunk(world_size)[rank].chunk(2)):
        mine += gradient(weight, part) / (2 * world_size)
        if index == 1:
            dist.all_reduce(mine)
    assert close(mine, gradient(weights(), x)), "not the batch's gradient"
