"""A rank that has nothing to send sends nothing.

Does: Rank 0 sends the tokens that belong to rank 1, if there are any; rank 1 always receives.

Wrong: A message of no elements is a message too: the receiver waits for it.

Shows: Rank 1 hangs, for inputs without such a token.

Instead: Send the empty tensor as well, or tell the count first.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "input-hazard",
    "scope": "program",
    "source": "MPI Bugs Initiative (input hazard)",
    "world": 2,
    "code": "orphan-wait",
    "cause": "missing-send",
    "ranks": [1],
}


def faulty(rank, world_size):
    owners = torch.tensor([0, 0, 0])
    count = int((owners == 1).sum())
    if rank == 0:
        if count:
            dist.send(torch.ones(count, 2), 1)
    else:
        dist.recv(torch.empty(count, 2), 0)  # fault


def correct(rank, world_size):
    owners = torch.tensor([0, 0, 0])
    count = int((owners == 1).sum())
    if rank == 0:
        dist.send(torch.ones(count, 2), 1)
    else:
        dist.recv(torch.empty(count, 2), 0)
