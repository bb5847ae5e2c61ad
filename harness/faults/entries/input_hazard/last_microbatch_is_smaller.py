"""The last microbatch is smaller than the others.

Does: A batch of 7 is sent in microbatches of 3; the receiver has one size for all.

Wrong: 7 = 3 + 3 + 1: the last buffer keeps two rows of old values.

Shows: No error on gloo. Only batches that the size does not divide show it, and those come at the
end of an epoch.

Instead: Compute each microbatch's size on both sides in the same way.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "input-hazard",
    "scope": "program",
    "source": "pytorch#126600: uneven batches; gloo: receive buffer larger than the message",
    "world": 2,
    "code": "shape-mismatch",
    "ranks": [0, 1],
    "details": {"sent": [1, 2], "received": [3, 2]},
}


def faulty(rank, world_size):
    batch, size = 7, 3
    for first in range(0, batch, size):
        if rank == 0:
            dist.send(torch.ones(batch, 2)[first : first + size], 1)  # fault
        else:
            dist.recv(torch.empty(size, 2), 0)  # fault


def correct(rank, world_size):
    batch, size = 7, 3
    for first in range(0, batch, size):
        if rank == 0:
            dist.send(torch.ones(batch, 2)[first : first + size], 1)
        else:
            dist.recv(torch.empty(min(size, batch - first), 2), 0)
