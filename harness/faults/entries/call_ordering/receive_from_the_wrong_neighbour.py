"""A stage receives its input from the stage behind it.

Does: Stage 0 sends its activation to stage 1, which receives from the next rank in place of the one
before.

Wrong: Rank 2 sends nothing to rank 1, and rank 0's send is not what rank 1 waits for.

Shows: Ranks 0 and 1 hang when rank 2 has finished, on every backend.

Instead: Receive forward from rank - 1.
"""

import time

import torch
import torch.distributed as dist

LABEL = {
    "class": "call-ordering",
    "scope": "program",
    "source": "TrainVerify (wrong pipeline source); MPI Bugs Initiative",
    "world": 3,
    "code": "orphan-wait",
    "cause": "wrong-peer",
    "ranks": [1],
}


def _forward(rank, source):
    activation = torch.ones(4)
    if rank == 0:
        dist.send(activation, 1)
    elif rank == 1:
        dist.recv(activation, source)  # fault
    else:
        time.sleep(0.3)  # its own work


def faulty(rank, world_size):
    _forward(rank, rank + 1)


def correct(rank, world_size):
    _forward(rank, rank - 1)
