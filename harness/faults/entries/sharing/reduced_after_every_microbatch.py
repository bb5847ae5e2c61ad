"""The accumulated gradient is all-reduced after every microbatch.

Does: Each replica accumulates two microbatches and all-reduces .grad after each backward.

Wrong: After the first all-reduce .grad holds the sum over the ranks; the second adds that up over
the ranks again.

Shows: All replicas agree. Early microbatches count world_size times as much as the last.

Instead: All-reduce once, after the last microbatch, or reduce each microbatch's own gradient before
it is added.
"""

import torch
import torch.distributed as dist
from _shards import close, gradient, samples, weights

LABEL = {
    "class": "sharing",
    "scope": "program",
    "source": "Automodel#3530, the other way round; TrainVerify (inconsistent scaling)",
    "world": 2,
    "code": "rank-error",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    x, weight = samples(4 * world_size), weights()
    mine = torch.zeros_like(weight)
    for part in x.chunk(world_size)[rank].chunk(2):
        mine += gradient(weight, part) / (2 * world_size)
        dist.all_reduce(mine)  # fault
    assert close(mine, gradient(weights(), x)), "not the batch's gradient"  # fault: here


def correct(rank, world_size):
    x, weight = samples(4 * world_size), weights()
    mine = torch.zeros_like(weight)
    for part in x.chunk(world_size)[rank].chunk(2):
        mine += gradient(weight, part) / (2 * world_size)
    dist.all_reduce(mine)
    assert close(mine, gradient(weights(), x)), "not the batch's gradient"
