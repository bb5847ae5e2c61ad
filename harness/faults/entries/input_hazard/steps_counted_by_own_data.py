"""Each rank sums its loss as often as it has data.

Does: The ranks share five batches out among them and all_reduce a loss for each batch of their own.

Wrong: On 2 ranks one has three batches and the other two: their counts of collectives part.

Shows: The rank with one more hangs at the end of the epoch, where the world does not divide the
batches.

Instead: Give every rank as many steps: drop the rest, or sum zeros.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "input-hazard",
    "scope": "program",
    "source": "MPI Bugs Initiative (input hazard)",
    "world": 2,
    "code": "orphan-wait",
    "cause": "missing-collective",
    "ranks": [0],
}


def faulty(rank, world_size):
    batches = range(rank, 5, world_size)
    for batch in batches:
        dist.all_reduce(torch.tensor([float(batch)]))  # fault


def correct(rank, world_size):
    batches = range(rank, 5 - 5 % world_size, world_size)
    for batch in batches:
        dist.all_reduce(torch.tensor([float(batch)]))
