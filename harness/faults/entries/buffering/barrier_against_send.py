"""A barrier stands before the receive on one rank, and after the send on the other.

Does: Rank 1 sends its result and then comes to a barrier; rank 0 comes to the barrier and then
receives.

Wrong: Rank 1's send ends only when rank 0 has posted the receive, which stands behind the barrier.

Shows: Both hang on gloo, and on NCCL from the size at which the buffers are full.

Instead: Receive before the barrier.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "buffering",
    "scope": "program",
    "source": "MPI Bugs Initiative (barrier against send)",
    "world": 2,
    "code": "deadlock",
    "cause": "needs-buffering",
    "ranks": [0, 1],
    "semantics": {"buffered": None},
}


def faulty(rank, world_size):
    result = torch.full((4,), float(rank))
    if rank == 0:
        dist.barrier()  # fault
        dist.recv(result, 1)
    else:
        dist.send(result, 0)  # fault
        dist.barrier()


def correct(rank, world_size):
    result = torch.full((4,), float(rank))
    if rank == 0:
        dist.recv(result, 1)
        dist.barrier()
    else:
        dist.send(result, 0)
        dist.barrier()
