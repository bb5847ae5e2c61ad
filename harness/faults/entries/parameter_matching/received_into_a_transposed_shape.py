"""Sent as samples by features, received as features by samples.

Does: Rank 0 sends a tensor of shape (2, 8); rank 1 receives into one of shape (8, 2).

Wrong: A message is a row of numbers. The receiver lays them out in its own shape, which is no
transposition: samples and features are mixed up.

Shows: Nothing fails, for as many elements come as are awaited. A warning, for a flat buffer may be
meant.

Instead: Receive in the sender's shape, and transpose afterwards.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "parameter-matching",
    "scope": "program",
    "source": "gloo: other shape, same element count",
    "world": 2,
    "code": "shape-mismatch",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    if rank == 0:
        dist.send(torch.arange(16.0).reshape(2, 8), 1)  # fault
    else:
        received = torch.empty(8, 2)
        dist.recv(received, 0)  # fault
        return received


def correct(rank, world_size):
    if rank == 0:
        dist.send(torch.arange(16.0).reshape(2, 8), 1)
    else:
        received = torch.empty(2, 8)
        dist.recv(received, 0)
        return received.t()
