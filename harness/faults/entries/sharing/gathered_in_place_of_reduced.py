"""Gradients are gathered where they should be reduced.

Does: Each rank gathers the gradients of all replicas into a list, and goes on with the first of
them.

Wrong: All-gather puts the parts side by side and adds nothing up.

Shows: All replicas agree, so that a check for equal weights passes. They train on the first
replica's part of the data.

Instead: All-reduce, or add up what was gathered.
"""

import torch
import torch.distributed as dist
from _shards import close, gradient, samples, weights

LABEL = {
    "class": "sharing",
    "scope": "program",
    "source": "TrainVerify (all-reduce swapped with all-gather)",
    "world": 2,
    "code": "rank-error",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    x, weight = samples(4 * world_size), weights()
    mine = gradient(weight, x.chunk(world_size)[rank])
    parts = [torch.empty_like(mine) for _ in range(world_size)]
    dist.all_gather(parts, mine)
    mine = parts[0]  # fault
    assert close(mine, gradient(weights(), x)), "not the batch's gradient"  # fault: here


def correct(rank, world_size):
    x, weight = samples(4 * world_size), weights()
    mine = gradient(weight, x.chunk(world_size)[rank])
    parts = [torch.empty_like(mine) for _ in range(world_size)]
    dist.all_gather(parts, mine)
    mine = sum(parts) / world_size
    assert close(mine, gradient(weights(), x)), "not the batch's gradient"
