"""Three ranks pass a token around a ring, and nobody starts it.

Does: Each of three ranks receives from the one before it, adds one, and sends to the next.

Wrong: The first rank has to send first. Here it is no exception, so that each waits for the rank
before it.

Shows: All three hang, on every backend.

Instead: Rank 0 sends before it receives.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "call-ordering",
    "scope": "program",
    "source": "MPI Bugs Initiative (call ordering, three ranks)",
    "world": 3,
    "code": "deadlock",
    "cause": "order",
    "ranks": [0, 1, 2],
}


def faulty(rank, world_size):
    token = torch.zeros(1)
    dist.recv(token, (rank - 1) % world_size)  # fault
    dist.send(token + 1, (rank + 1) % world_size)


def correct(rank, world_size):
    token = torch.zeros(1)
    if rank == 0:
        dist.send(token + 1, 1)
        dist.recv(token, world_size - 1)
    else:
        dist.recv(token, rank - 1)
        dist.send(token + 1, (rank + 1) % world_size)
