"""One rank asks for the maximum, the others for the sum.

Does: The ranks reduce the loss; rank 0, which logs it, passes MAX.

Wrong: The operator is not sent along. Each rank applies its own to the parts that pass through it.

Shows: No error: each rank has a number, and they are not the same.

Instead: Pass the same op on all ranks. For two reductions make two calls, on every rank.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "parameter-matching",
    "scope": "program",
    "source": "gloo: reduce op disagrees; MPI Bugs Initiative (parameter matching)",
    "world": 3,
    "code": "collective-mismatch",
    "ranks": [0],
    "details": {"what": "reduce op"},
}


def faulty(rank, world_size):
    loss = torch.full((1,), rank + 1.0)
    op = dist.ReduceOp.MAX if rank == 0 else dist.ReduceOp.SUM
    dist.all_reduce(loss, op=op)  # fault
    return loss


def correct(rank, world_size):
    loss = torch.full((1,), rank + 1.0)
    dist.all_reduce(loss, op=dist.ReduceOp.SUM)
    return loss
