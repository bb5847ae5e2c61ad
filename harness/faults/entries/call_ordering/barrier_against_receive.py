"""A barrier stands before the send on one rank, and after the receive on the other.

Does: Rank 0 comes to a barrier and then sends; rank 1 receives and then comes to the barrier.

Wrong: Rank 1 gets its message only when rank 0 has left the barrier, and rank 0 leaves it only when
rank 1 has come.

Shows: Both hang, on every backend.

Instead: The same order of barrier and message on both ranks.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "call-ordering",
    "scope": "program",
    "source": "MPI Bugs Initiative (call ordering, message and collective)",
    "world": 2,
    "code": "deadlock",
    "cause": "order",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    weights = torch.ones(4)
    if rank == 0:
        dist.barrier()  # fault
        dist.send(weights, 1)
    else:
        dist.recv(weights, 0)  # fault
        dist.barrier()


def correct(rank, world_size):
    weights = torch.ones(4)
    if rank == 0:
        dist.send(weights, 1)
    else:
        dist.recv(weights, 0)
    dist.barrier()
