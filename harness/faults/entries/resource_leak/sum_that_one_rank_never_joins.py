"""An asynchronous sum is started by one rank only, and left.

Does: Rank 0, which logs, starts an all_reduce of the loss with async_op and goes on without a wait.
Rank 1 does not log, and does not come.

Wrong: The sum cannot be made without rank 1. It stays under way, and the group's next collective
would meet it.

Shows: Nothing while no other collective follows. One that follows pairs rank 0's loss with
something else, or hangs.

Instead: Start the sum on every rank, and wait for it where it is used.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "resource-leak",
    "scope": "program",
    "source": "MPI Bugs Initiative (resource leak)",
    "world": 2,
    "code": "unawaited-request",
    "ranks": [0],
}


def faulty(rank, world_size):
    loss = torch.full((1,), rank + 1.0)
    if rank == 0:
        dist.all_reduce(loss, async_op=True)  # fault


def correct(rank, world_size):
    loss = torch.full((1,), rank + 1.0)
    work = dist.all_reduce(loss, async_op=True)
    work.wait()
