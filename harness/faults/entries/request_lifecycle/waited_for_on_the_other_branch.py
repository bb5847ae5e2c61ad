"""The wait stands in a branch that only the sender takes.

Does: Rank 0 posts a send and rank 1 a receive; the wait for either is under `if rank == 0`.

Wrong: Rank 1 never waits for its receive. A barrier is no wait: it says that the ranks have come,
and not that a message has.

Shows: Nothing fails while messages overtake the barrier.

Instead: Wait on every rank that has a request.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "request-lifecycle",
    "scope": "program",
    "source": "MPI Bugs Initiative (request lifecycle)",
    "world": 2,
    "code": "unawaited-request",
    "ranks": [1],
}


def faulty(rank, world_size):
    tensor = torch.full((4,), float(rank))
    if rank == 0:
        work = dist.isend(tensor, 1)
    else:
        work = dist.irecv(tensor, 0)  # fault
    if rank == 0:
        work.wait()
    dist.barrier()
    return tensor


def correct(rank, world_size):
    tensor = torch.full((4,), float(rank))
    if rank == 0:
        work = dist.isend(tensor, 1)
    else:
        work = dist.irecv(tensor, 0)
    work.wait()
    dist.barrier()
    return tensor
