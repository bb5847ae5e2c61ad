"""The group is destroyed while an asynchronous sum is under way.

Does: Each rank starts the all_reduce of its last loss and destroys the group without a wait. Rank 1
comes to it later.

Wrong: Rank 0 destroys the group before rank 1 has taken part.

Shows: Rank 1 fails or hangs, depending on the time; rank 0 keeps its own loss in place of the sum.

Instead: Wait for the request before destroy_process_group.
"""

import time

import torch
import torch.distributed as dist

LABEL = {
    "class": "teardown",
    "scope": "program",
    "source": "PiPPy#1139",
    "world": 2,
    "code": "early-destroy",
    "ranks": [0],
}


def _sum_and_leave(rank, waits):
    time.sleep(rank / 3)
    work = dist.all_reduce(torch.ones(1), async_op=True)  # fault
    if waits:
        work.wait()
    dist.destroy_process_group()


def faulty(rank, world_size):
    _sum_and_leave(rank, waits=rank == 1)


def correct(rank, world_size):
    _sum_and_leave(rank, waits=True)
