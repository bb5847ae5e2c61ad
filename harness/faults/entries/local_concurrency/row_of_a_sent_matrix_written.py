"""A row is written of a matrix that is being sent.

Does: Rank 0 posts a send of all its states, writes the next state into a row of the same storage,
and waits.

Wrong: A row is a view: it has its own name, and shares the memory.

Shows: The receiver may find the new row among the old ones.

Instead: Wait first, or write into a storage that is not under way.
"""

import time

import torch
import torch.distributed as dist

LABEL = {
    "class": "local-concurrency",
    "scope": "program",
    "source": "MPI Bugs Initiative (local concurrency)",
    "world": 2,
    "code": "buffer-overwrite",
    "ranks": [0],
    "semantics": {"buffered": None},
}


def faulty(rank, world_size):
    states = torch.zeros(3, 4)
    if rank == 0:
        current = states[1]
        work = dist.isend(states, 1)  # fault
        current.fill_(7)
        work.wait()
    else:
        time.sleep(0.2)
        dist.recv(states, 0)


def correct(rank, world_size):
    states = torch.zeros(3, 4)
    if rank == 0:
        current = states[1]
        work = dist.isend(states, 1)
        work.wait()
        current.fill_(7)
    else:
        dist.recv(states, 0)
