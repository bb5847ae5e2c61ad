"""A receive is posted ahead for a message that never comes.

Does: Rank 1 posts its next receive before it handles the current message, also in the last round.

Wrong: The receive posted in the last round has no send. Its handle is dropped while it is pending.

Shows: Nothing fails on gloo. On NCCL the receive stays in the communicator's queue, and all that is
posted later waits behind it.

Instead: Post ahead only while something is to come.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "request-lifecycle",
    "scope": "program",
    "source": "MPI Bugs Initiative (request lifecycle)",
    "world": 2,
    "code": "dropped-request",
    "ranks": [1],
    "backends": {"nccl": None},
}


def faulty(rank, world_size):
    rounds, total = 3, torch.zeros(4)
    if rank == 0:
        for number in range(rounds):
            dist.send(torch.full((4,), float(number)), 1)
        return None
    buffers = [torch.empty(4), torch.empty(4)]
    work = dist.irecv(buffers[0], 0)
    for number in range(rounds):
        work.wait()
        work = dist.irecv(buffers[(number + 1) % 2], 0)  # fault
        total += buffers[number % 2]
    return total


def correct(rank, world_size):
    rounds, total = 3, torch.zeros(4)
    if rank == 0:
        for number in range(rounds):
            dist.send(torch.full((4,), float(number)), 1)
        return None
    buffers = [torch.empty(4), torch.empty(4)]
    work = dist.irecv(buffers[0], 0)
    for number in range(rounds):
        work.wait()
        if number + 1 < rounds:
            work = dist.irecv(buffers[(number + 1) % 2], 0)
        total += buffers[number % 2]
    return total
