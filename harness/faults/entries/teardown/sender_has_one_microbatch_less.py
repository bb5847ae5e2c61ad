"""The receiver loops over one microbatch more than the sender.

Does: Rank 0 sends a gradient for each of two microbatches; rank 1 receives three.

Wrong: The third receive has no send.

Shows: Rank 1 hangs in it when rank 0 has finished; the group's timeout then names neither the peer
nor the count.

Instead: Both loops over the same number.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "teardown",
    "scope": "program",
    "source": "DeepSpeed#5518",
    "world": 2,
    "code": "orphan-wait",
    "cause": "missing-send",
    "ranks": [1],
}


def _gradients(rank, sent, received):
    gradient = torch.ones(4)
    if rank == 0:
        for _ in range(sent):
            dist.send(gradient, 1)
    else:
        for _ in range(received):
            dist.recv(gradient, 0)  # fault


def faulty(rank, world_size):
    _gradients(rank, 2, 3)


def correct(rank, world_size):
    _gradients(rank, 2, 2)
