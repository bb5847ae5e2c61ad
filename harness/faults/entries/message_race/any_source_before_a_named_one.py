"""A receive from any source takes the message that a named one waits for.

Does: Rank 0 receives from any rank and then from rank 1. Ranks 1 and 2 send one message each.

Wrong: If rank 1's message comes first, the receive from any source takes it, and nothing is left
for the second.

Shows: It depends on timing: either all is well, or ranks 0 and 2 hang. NCCL has no receive from any
source.

Instead: Receive from rank 1 by name first.
"""

import time

import torch
import torch.distributed as dist

LABEL = {
    "class": "message-race",
    "scope": "program",
    "source": "MPI Bugs Initiative (message race, any source before a named one)",
    "world": 3,
    "code": "orphan-wait",
    "cause": "order",
    "ranks": [0],
    "deterministic": False,
}


def _send_a_little_later(rank, tensor):
    time.sleep(rank / 10)
    dist.send(tensor, 0)
    time.sleep((3 - rank) / 10)  # the program goes on to something else


def faulty(rank, world_size):
    tensor = torch.full((2,), float(rank))
    if rank == 0:
        dist.recv(tensor)
        dist.recv(tensor, 1)  # fault
    else:
        _send_a_little_later(rank, tensor)


def correct(rank, world_size):
    tensor = torch.full((2,), float(rank))
    if rank == 0:
        dist.recv(tensor, 1)
        dist.recv(tensor)
    else:
        _send_a_little_later(rank, tensor)
