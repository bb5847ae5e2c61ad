"""The partner of the middle rank is itself.

Does: Ranks exchange with their mirror image, world_size - 1 - rank.

Wrong: In an odd world the middle rank is its own mirror image.

Shows: ValueError on that rank, for worlds of 3, 5 and so on. Even worlds are right.

Instead: Leave the exchange out where partner == rank.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "input-hazard",
    "scope": "program",
    "source": "MPI Bugs Initiative (input hazard); gloo: self-send",
    "world": 3,
    "code": "invalid-argument",
    "ranks": [1],
}


def faulty(rank, world_size):
    partner, mine, theirs = world_size - 1 - rank, torch.ones(2), torch.empty(2)
    if rank < partner:
        dist.send(mine, partner)
        dist.recv(theirs, partner)
    else:
        dist.recv(theirs, partner)  # fault
        dist.send(mine, partner)


def correct(rank, world_size):
    partner, mine, theirs = world_size - 1 - rank, torch.ones(2), torch.empty(2)
    if rank < partner:
        dist.send(mine, partner)
        dist.recv(theirs, partner)
    elif rank > partner:
        dist.recv(theirs, partner)
        dist.send(mine, partner)
