"""One rank reduces the loss, the other broadcasts it.

Does: Rank 0 takes part in an all_reduce of the loss, rank 1 in a broadcast from rank 0.

Wrong: The first collective of the group is another one on each rank. Collectives meet by their
count and not by their kind.

Shows: On gloo both hang or fail; NCCL hangs or gives wrong numbers without an error.

Instead: The same collective on both ranks.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "call-ordering",
    "scope": "program",
    "source": "MPI Bugs Initiative (call ordering, collectives)",
    "world": 2,
    "code": "collective-mismatch",
    "ranks": [0, 1],
    "details": {"what": "kind"},
}


def faulty(rank, world_size):
    loss = torch.tensor([0.5 + rank])
    if rank == 0:
        dist.all_reduce(loss)  # fault
    else:
        dist.broadcast(loss, src=0)  # fault


def correct(rank, world_size):
    loss = torch.tensor([0.5 + rank])
    dist.all_reduce(loss)
