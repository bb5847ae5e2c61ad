"""A loop polls is_completed() until the message has come.

Does: Rank 1 posts a receive, and asks it in a loop whether it has completed.

Wrong: On gloo a message's request makes progress in wait() alone: is_completed() stays False for
ever, although the data has long been there.

Shows: Rank 1 spins without end. There is no deadlock to prove, as the loop might stop.

Instead: Call wait(). For work in between, do it first and then wait.
"""

import time

import torch
import torch.distributed as dist

LABEL = {
    "class": "request-lifecycle",
    "scope": "program",
    "source": "gloo: is_completed() on a p2p work, never waited for",
    "world": 2,
    "code": "timeout",
    "ranks": [1],
    "backends": {"nccl": None},
    "options": {"timeout": 2},
}


def faulty(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(4), 1)
    else:
        work = dist.irecv(torch.empty(4), 0)
        while not work.is_completed():
            time.sleep(0.001)  # fault


def correct(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(4), 1)
    else:
        work = dist.irecv(torch.empty(4), 0)
        time.sleep(0.001)
        work.wait()
