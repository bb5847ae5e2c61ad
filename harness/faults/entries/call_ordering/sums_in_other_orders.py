"""Two sums of one size come in another order on one rank.

Does: Each rank sums its loss and its gradient norm, rank 1 in the other order.

Wrong: Rank 0's loss is added to rank 1's norm. Kind, size and type agree, so nothing fails.

Shows: Wrong numbers, silently, on every backend.

Instead: The same order on every rank; or one tensor that holds both.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "call-ordering",
    "scope": "program",
    "source": "MPI Bugs Initiative (call ordering, collectives); all_reduce in swapped order",
    "world": 2,
    "code": "collective-skew",
    "ranks": [0, 1],
}


def _sum_loss(loss):
    dist.all_reduce(loss)  # fault


def _sum_norm(norm):
    dist.all_reduce(norm)  # fault


def faulty(rank, world_size):
    loss, norm = torch.tensor([0.5]), torch.tensor([3.0])
    if rank == 0:
        _sum_loss(loss)
        _sum_norm(norm)
    else:
        _sum_norm(norm)
        _sum_loss(loss)


def correct(rank, world_size):
    loss, norm = torch.tensor([0.5]), torch.tensor([3.0])
    _sum_loss(loss)
    _sum_norm(norm)
