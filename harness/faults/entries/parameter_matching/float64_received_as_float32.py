"""One side follows the default dtype, the other does not.

Does: Rank 0 sends float64 from its data loader; rank 1 allocates with torch's default, float32.

Wrong: The element counts agree, the bytes do not: the message is twice as long as the buffer.

Shows: On gloo the receiving process is aborted. On NCCL, which counts elements of the type given,
each side moves another number of bytes.

Instead: Give the dtype where the buffer is allocated.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "parameter-matching",
    "scope": "program",
    "source": "MPI Bugs Initiative (parameter matching)",
    "world": 2,
    "code": "dtype-mismatch",
    "ranks": [0, 1],
    "details": {"sent": "float64", "received": "float32"},
}


def faulty(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(4, dtype=torch.float64), 1)  # fault
    else:
        dist.recv(torch.empty(4), 0)  # fault


def correct(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(4, dtype=torch.float64), 1)
    else:
        dist.recv(torch.empty(4, dtype=torch.float64), 0)
