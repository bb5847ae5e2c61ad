"""The last rank sends around the ring, and the first does not receive.

Does: Every rank sends its activation to the next, the last one to rank 0 again; every rank but the
first receives.

Wrong: A pipeline is a line: what the last stage computes goes to nobody.

Shows: The last rank hangs in its wait on gloo. With buffered sends, the message is never received.

Instead: Send only where there is a next stage.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "resource-leak",
    "scope": "program",
    "source": "pytorch#127796: wrap-around send; MPI Bugs Initiative (resource leak)",
    "world": 2,
    "code": "orphan-wait",
    "cause": "missing-receive",
    "ranks": [1],
    "semantics": {"buffered": "unreceived-message"},
}


def faulty(rank, world_size):
    activation = torch.full((4,), float(rank))
    if rank > 0:
        dist.recv(torch.empty(4), rank - 1)
    dist.send(activation, (rank + 1) % world_size)  # fault


def correct(rank, world_size):
    activation = torch.full((4,), float(rank))
    if rank > 0:
        dist.recv(torch.empty(4), rank - 1)
    if rank < world_size - 1:
        dist.send(activation, rank + 1)
