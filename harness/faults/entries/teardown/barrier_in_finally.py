"""A rank that has raised waits at the barrier of its clean-up.

Does: All ranks end with a barrier in a finally. Rank 1 raises before it has sent, and rank 0 waits
for its tensor.

Wrong: Rank 1 waits at the barrier for rank 0, which waits for rank 1's tensor. The error is not
printed before the barrier ends.

Shows: Both hang, and nobody sees the error.

Instead: No collective on the way out of an error: let the error end the process.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "teardown",
    "scope": "program",
    "source": "torchtitan#1342",
    "world": 2,
    "code": "deadlock",
    "cause": "order",
    "ranks": [0, 1],
}


def _step(rank, fails):
    tensor = torch.ones(4)
    if rank == 0:
        dist.recv(tensor, 1)  # fault
    elif fails:
        raise RuntimeError("out of memory")
    else:
        dist.send(tensor, 0)


def faulty(rank, world_size):
    try:
        _step(rank, fails=True)
    finally:
        dist.barrier()  # fault


def correct(rank, world_size):
    _step(rank, fails=False)
    dist.barrier()
