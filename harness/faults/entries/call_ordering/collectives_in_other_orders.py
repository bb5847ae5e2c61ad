"""Two collectives come in another order on one of three ranks.

Does: Each rank sums the loss and gathers the gradient norms, but rank 2 gathers first.

Wrong: The first collective is an all_reduce on ranks 0 and 1, and an all_gather on rank 2.

Shows: On gloo the ranks hang or fail; NCCL hangs or mixes up their data.

Instead: The same order on every rank.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "call-ordering",
    "scope": "program",
    "source": "MPI Bugs Initiative (call ordering, collectives)",
    "world": 3,
    "code": "collective-mismatch",
    "ranks": [2],
    "details": {"what": "kind"},
}


def faulty(rank, world_size):
    loss, norm = torch.ones(1), torch.full((1,), float(rank))
    norms = [torch.zeros(1) for _ in range(world_size)]
    if rank == 2:
        dist.all_gather(norms, norm)  # fault
        dist.all_reduce(loss)
    else:
        dist.all_reduce(loss)  # fault
        dist.all_gather(norms, norm)


def correct(rank, world_size):
    loss, norm = torch.ones(1), torch.full((1,), float(rank))
    norms = [torch.zeros(1) for _ in range(world_size)]
    dist.all_reduce(loss)
    dist.all_gather(norms, norm)
