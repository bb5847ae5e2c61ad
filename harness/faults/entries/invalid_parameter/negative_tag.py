"""The tag is negative.

Does: Messages are tagged by the microbatch, and those of the warmup by the microbatch minus the
warmup: the first has tag -1.

Wrong: Tags are numbers from 0 up.

Shows: An error on gloo that says so. NCCL has no tags, and does not look at it.

Instead: Count tags from 0; shift both directions by a constant where they have to differ.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "invalid-parameter",
    "scope": "program",
    "source": "gloo: negative tag; Primus#1003: microbatch -1",
    "world": 2,
    "code": "invalid-argument",
    "ranks": [0, 1],
    "backends": {"nccl": None},
}


def faulty(rank, world_size):
    microbatch, warmup = 0, 1
    tag = microbatch - warmup
    if rank == 0:
        dist.send(torch.ones(4), 1, tag=tag)  # fault
    else:
        dist.recv(torch.empty(4), 0, tag=tag)  # fault


def correct(rank, world_size):
    microbatch, warmup = 0, 1
    tag = microbatch + warmup
    if rank == 0:
        dist.send(torch.ones(4), 1, tag=tag)
    else:
        dist.recv(torch.empty(4), 0, tag=tag)
