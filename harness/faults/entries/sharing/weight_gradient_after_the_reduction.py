"""The weight's gradient is added after the all-reduce.

Does: With a split backward the weight's part is computed late, in the idle time. The reduction of
the gradients is started by the input's part.

Wrong: What is reduced lacks the weight's part, which each rank adds on its own.

Shows: The reduction is of an empty gradient. Every rank goes on with its own part only: replicas
drift apart.

Instead: Reduce after the last W.
"""

import torch
import torch.distributed as dist
from _shards import close, gradient, samples, weights

LABEL = {
    "class": "sharing",
    "scope": "program",
    "source": "Megatron#1012; pytorch#144530 (split backward bypasses hooks)",
    "world": 2,
    "code": "rank-error",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    x, weight = samples(4 * world_size), weights()
    mine = torch.zeros_like(weight)
    dist.all_reduce(mine)  # fault
    mine += gradient(weight, x.chunk(world_size)[rank]) / world_size
    assert close(mine, gradient(weights(), x)), "not the batch's gradient"  # fault: here


def correct(rank, world_size):
    x, weight = samples(4 * world_size), weights()
    mine = torch.zeros_like(weight)
    mine += gradient(weight, x.chunk(world_size)[rank]) / world_size
    dist.all_reduce(mine)
    assert close(mine, gradient(weights(), x)), "not the batch's gradient"
