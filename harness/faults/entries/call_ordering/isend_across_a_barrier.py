"""A message is on its way while both ranks come to a barrier.

Does: Rank 0 posts an isend, comes to a barrier and waits for the isend; rank 1 comes to the barrier
and then receives.

Wrong: Right on gloo. On NCCL the barrier stands behind the send in the group's queue, or the pair's
communicator is made by a call that rank 1 comes to only after the barrier.

Shows: Finishes on gloo. On NCCL rank 0 never gets past its barrier: always without device_id, and
with it from the size at which the buffers are full.

Instead: Post the receive before the barrier as well.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "call-ordering",
    "scope": "program",
    "source": "MPI Bugs Initiative (call ordering, message and collective)",
    "world": 2,
    "code": "nccl-hazard",
    "cause": "lazy-communicator",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    tensor = torch.ones(4)
    if rank == 0:
        work = dist.isend(tensor, 1)  # fault
        dist.barrier()
        work.wait()
    else:
        dist.barrier()  # fault
        dist.recv(tensor, 0)


def correct(rank, world_size):
    tensor = torch.ones(4)
    work = dist.isend(tensor, 1) if rank == 0 else dist.irecv(tensor, 0)
    dist.barrier()
    work.wait()
