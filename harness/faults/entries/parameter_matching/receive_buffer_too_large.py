"""The receive buffer is larger than the message.

Does: Rank 0 sends a microbatch of 8 elements; rank 1 receives into room for the batch of 32.

Wrong: Nothing carries the size along. The first 8 elements are filled, the others keep what was in
them.

Shows: No error on gloo: the stage computes on three parts of old values. NCCL may do the same or
hang.

Instead: Allocate the buffer for the microbatch that is sent.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "parameter-matching",
    "scope": "program",
    "source": "gloo: receive buffer larger than the message; pytorch#113376",
    "world": 2,
    "code": "shape-mismatch",
    "ranks": [0, 1],
    "details": {"sent": [2, 4], "received": [8, 4]},
}


def faulty(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(2, 4), 1)  # fault
    else:
        activation = torch.zeros(8, 4)
        dist.recv(activation, 0)  # fault
        return activation


def correct(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(2, 4), 1)
    else:
        activation = torch.zeros(2, 4)
        dist.recv(activation, 0)
        return activation
