"""Rank 0 takes one message more from anybody than is sent.

Does: The workers report to rank 0, which receives as many reports as there are ranks.

Wrong: It does not report to itself: there are only as many reports as workers.

Shows: Rank 0 hangs in the last receive, when all workers have finished.

Instead: Count the workers, not the ranks.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "message-race",
    "scope": "program",
    "source": "MPI Bugs Initiative (call matching, any source)",
    "world": 3,
    "code": "orphan-wait",
    "cause": "missing-send",
    "ranks": [0],
}


def faulty(rank, world_size):
    report = torch.full((2,), float(rank))
    if rank:
        dist.send(report, 0)
    else:
        for _ in range(world_size):
            dist.recv(report)  # fault


def correct(rank, world_size):
    report = torch.full((2,), float(rank))
    if rank:
        dist.send(report, 0)
    else:
        for _ in range(world_size - 1):
            dist.recv(report)
