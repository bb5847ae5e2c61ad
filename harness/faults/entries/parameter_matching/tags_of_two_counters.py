"""Each side tags the message with a counter of its own.

Does: Rank 0 tags a message by the microbatch, from 0; rank 1 expects tags from 1.

Wrong: On gloo a receive takes only a message of its own tag.

Shows: Both ranks hang on gloo. NCCL has no tags: there the program ends, with a message that was
meant for another receive as far as the tags say. With buffered sends rank 1 alone hangs.

Instead: Let both sides compute the tag from the microbatch in the same way.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "parameter-matching",
    "scope": "program",
    "source": "MPI Bugs Initiative (parameter matching); gloo: tag mismatch",
    "world": 2,
    "code": "deadlock",
    "cause": "tag-mismatch",
    "ranks": [0, 1],
    "semantics": {
        "buffered": "orphan-wait",
        "nccl-eager": "nccl-hazard",
        "nccl-lazy": "nccl-hazard",
    },
    "backends": {"nccl": None},
}


def faulty(rank, world_size):
    microbatch = 0
    if rank == 0:
        dist.send(torch.ones(4), 1, tag=microbatch)  # fault
    else:
        dist.recv(torch.empty(4), 0, tag=microbatch + 1)  # fault


def correct(rank, world_size):
    microbatch = 0
    if rank == 0:
        dist.send(torch.ones(4), 1, tag=microbatch)
    else:
        dist.recv(torch.empty(4), 0, tag=microbatch)
