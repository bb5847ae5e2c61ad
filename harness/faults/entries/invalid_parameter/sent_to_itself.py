"""A rank sends to itself.

Does: The last rank of a ring computes its next rank without the modulus, clamped to the last one.

Wrong: A message needs two ranks. torch refuses one from a rank to itself.

Shows: ValueError on that rank; the others wait for what never comes.

Instead: Wrap around with % world_size, or leave the call out on the last rank.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "invalid-parameter",
    "scope": "program",
    "source": "gloo: self-send",
    "world": 3,
    "code": "invalid-argument",
    "ranks": [2],
}


def faulty(rank, world_size):
    following = min(rank + 1, world_size - 1)
    work = dist.isend(torch.ones(4), following)  # fault
    dist.recv(torch.empty(4), (rank - 1) % world_size)
    work.wait()


def correct(rank, world_size):
    operations = [
        dist.P2POp(dist.isend, torch.ones(4), (rank + 1) % world_size),
        dist.P2POp(dist.irecv, torch.empty(4), (rank - 1) % world_size),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
