"""Two ranks use two groups that they share in other orders.

Does: Ranks 0 and 1 share a group for data and one for tensor parallelism. Each sums its loss in the
first and its norm in the second; rank 1 the other way round.

Wrong: Each waits in a group to which the other comes only afterwards.

Shows: Both hang, on every backend.

Instead: The same order of groups on all ranks.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "groups",
    "scope": "program",
    "source": "MPI Bugs Initiative (two communicators used in different orders)",
    "world": 2,
    "code": "deadlock",
    "cause": "order",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    loss, norm = torch.ones(1), torch.ones(1)
    data, model = dist.new_group([0, 1]), dist.new_group([0, 1])
    if rank == 0:
        dist.all_reduce(loss, group=data)  # fault
        dist.all_reduce(norm, group=model)
    else:
        dist.all_reduce(norm, group=model)  # fault
        dist.all_reduce(loss, group=data)


def correct(rank, world_size):
    loss, norm = torch.ones(1), torch.ones(1)
    data, model = dist.new_group([0, 1]), dist.new_group([0, 1])
    dist.all_reduce(loss, group=data)
    dist.all_reduce(norm, group=model)
