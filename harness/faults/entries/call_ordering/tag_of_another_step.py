"""The sender counts steps from 0 in its tags, and the receiver from 1.

Does: Rank 0 sends each step's activation with the step as its tag; rank 1 receives it likewise, but
counts its steps from 1.

Wrong: A message is taken only by a receive with its own tag. Tag 0 is never received.

Shows: Both hang on gloo in the first step. With buffered sends rank 1 is a step behind, and hangs
in the last one. NCCL ignores tags, so that it would finish there.

Instead: The same tag on both sides.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "call-ordering",
    "scope": "program",
    "source": "MPI Bugs Initiative (tag mismatch)",
    "world": 2,
    "code": "deadlock",
    "cause": "tag-mismatch",
    "ranks": [0, 1],
    "semantics": {
        "buffered": "orphan-wait",
        "nccl-eager": "nccl-hazard",
        "nccl-lazy": "nccl-hazard",
    },
}


def _steps(rank, first):
    activation = torch.ones(4)
    for step in range(2):
        if rank == 0:
            dist.send(activation, 1, tag=step)  # fault
        else:
            dist.recv(activation, 0, tag=first + step)  # fault


def faulty(rank, world_size):
    _steps(rank, first=1)


def correct(rank, world_size):
    _steps(rank, first=0)
