"""The middle stage waits for a gradient before it has sent its activation.

Does: Three stages run one microbatch forward and backward. The middle one receives both its inputs
first: the activation from stage 0 and the gradient from stage 2.

Wrong: Stage 2 can send a gradient only after it has got the activation.

Shows: Ranks 1 and 2 wait for each other, and rank 0 for rank 1, on every backend.

Instead: Send the activation on before the gradient is received.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "call-ordering",
    "scope": "program",
    "source": "MPI Bugs Initiative (call ordering, receives)",
    "world": 3,
    "code": "deadlock",
    "cause": "order",
    "ranks": [1, 2],
}


def faulty(rank, world_size):
    activation, gradient = torch.ones(4), torch.zeros(4)
    if rank == 0:
        dist.send(activation, 1)
        dist.recv(gradient, 1)
    elif rank == 1:
        dist.recv(activation, 0)
        dist.recv(gradient, 2)  # fault
        dist.send(activation * 2, 2)
        dist.send(gradient, 0)
    else:
        dist.recv(activation, 1)  # fault
        dist.send(torch.ones(4), 1)


def correct(rank, world_size):
    activation, gradient = torch.ones(4), torch.zeros(4)
    if rank == 0:
        dist.send(activation, 1)
        dist.recv(gradient, 1)
    elif rank == 1:
        dist.recv(activation, 0)
        dist.send(activation * 2, 2)
        dist.recv(gradient, 2)
        dist.send(gradient, 0)
    else:
        dist.recv(activation, 1)
        dist.send(torch.ones(4), 1)
