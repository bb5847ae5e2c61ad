"""Only tags say which message is which, and the order is another.

Does: Rank 0 sends weights with tag 1 and biases with tag 2; rank 1 posts the receive of the biases
first.

Wrong: NCCL has no tags: the n-th send meets the n-th receive, so that each tensor gets the other's
values.

Shows: Right on gloo. On NCCL the values are exchanged without an error.

Instead: Post the receives in the order of the sends.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "message-race",
    "scope": "program",
    "source": "MPI Bugs Initiative (message race, tags); NCCL has no tags",
    "world": 2,
    "code": "nccl-hazard",
    "cause": "tags-ignored",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    weights, biases = torch.full((4,), 1.0), torch.full((4,), 2.0)
    if rank == 0:
        works = [dist.isend(weights, 1, tag=1)]  # fault
        works += [dist.isend(biases, 1, tag=2)]
    else:
        works = [dist.irecv(biases, 0, tag=2)]  # fault
        works += [dist.irecv(weights, 0, tag=1)]
    for work in works:
        work.wait()


def correct(rank, world_size):
    weights, biases = torch.full((4,), 1.0), torch.full((4,), 2.0)
    if rank == 0:
        works = [dist.isend(weights, 1, tag=1), dist.isend(biases, 1, tag=2)]
    else:
        works = [dist.irecv(weights, 0, tag=1), dist.irecv(biases, 0, tag=2)]
    for work in works:
        work.wait()
