"""One stage runs in bfloat16, the next in float16.

Does: Rank 0 sends a bfloat16 activation; rank 1 has a float16 buffer.

Wrong: Both are 16 bits wide, but exponent and fraction part at another bit: 1.0 arrives as 1.875.

Shows: No error, and numbers that look plausible. The loss is merely worse.

Instead: Settle one type for what passes between stages, and cast on the receiver's side.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "parameter-matching",
    "scope": "program",
    "source": "MPI Bugs Initiative (parameter matching); gloo: other dtype, same byte count",
    "world": 2,
    "code": "dtype-mismatch",
    "ranks": [0, 1],
    "details": {"sent": "bfloat16", "received": "float16"},
}


def faulty(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(4, dtype=torch.bfloat16), 1)  # fault
    else:
        activation = torch.empty(4, dtype=torch.float16)
        dist.recv(activation, 0)  # fault
        return activation


def correct(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(4, dtype=torch.bfloat16), 1)
    else:
        activation = torch.empty(4, dtype=torch.bfloat16)
        dist.recv(activation, 0)
        return activation.to(torch.float16)
