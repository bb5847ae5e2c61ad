"""A ring of one rank sends to itself.

Does: Each rank passes its activation to the next, (rank + 1) % world_size, and takes the previous
rank's.

Wrong: In a world of one the next rank is the rank itself, and torch refuses a message to oneself.

Shows: ValueError on one rank only, the smallest debug run. Every larger world is right, on gloo.

Instead: Leave the messages out where world_size is 1.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "input-hazard",
    "scope": "program",
    "source": "MPI Bugs Initiative (input hazard); gloo: self-send",
    "world": 1,
    "code": "invalid-argument",
    "ranks": [0],
}


def faulty(rank, world_size):
    mine, theirs = torch.ones(4), torch.empty(4)
    work = dist.isend(mine, (rank + 1) % world_size)  # fault
    dist.recv(theirs, (rank - 1) % world_size)
    work.wait()
    return theirs


def correct(rank, world_size):
    mine, theirs = torch.ones(4), torch.empty(4)
    if world_size == 1:
        return mine
    work = dist.isend(mine, (rank + 1) % world_size)
    dist.recv(theirs, (rank - 1) % world_size)
    work.wait()
    return theirs
