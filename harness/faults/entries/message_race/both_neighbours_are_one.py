"""In a ring of two the next and the previous rank are the same.

Does: Each rank sends activations to the next and a gradient to the previous one, and receives the
gradient first: from the next rank, it means.

Wrong: With two ranks both messages go to the same peer, without tags, and pair by their order: the
gradient's receive takes an activation.

Shows: Only with two ranks. The buffer is too small there, and the process aborted; with equal sizes
the values would be exchanged silently.

Instead: Receive in the order in which the peer sends, so that it holds for two ranks as well.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "message-race",
    "scope": "program",
    "source": "Megatron#5271, Megatron#5100, Megatron#1450",
    "world": 2,
    "code": "shape-mismatch",
    "ranks": [0, 1],
    "details": {"sent": [8], "received": [2]},
}


def _batch(*operations):
    works = dist.batch_isend_irecv([dist.P2POp(*operation) for operation in operations])  # fault
    for work in works:
        work.wait()  # fault


def faulty(rank, world_size):
    after, before = (rank + 1) % world_size, (rank - 1) % world_size
    activation, gradient = torch.ones(8), torch.ones(2)
    _batch(
        (dist.isend, activation, after),
        (dist.isend, gradient, before),
        (dist.irecv, torch.zeros(2), after),
        (dist.irecv, torch.zeros(8), before),
    )


def correct(rank, world_size):
    after, before = (rank + 1) % world_size, (rank - 1) % world_size
    activation, gradient = torch.ones(8), torch.ones(2)
    _batch(
        (dist.isend, activation, after),
        (dist.isend, gradient, before),
        (dist.irecv, torch.zeros(8), before),
        (dist.irecv, torch.zeros(2), after),
    )
