"""Numbers of one type are received into another of the same size.

Does: Rank 0 sends its labels as float32; rank 1 receives into int32.

Wrong: Bytes are copied and not converted: 1.0 arrives as 1065353216.

Shows: No error on gloo, as the number of bytes agrees. The numbers are absurd, which helps.

Instead: Convert before the send, and allocate the buffer in that type.
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
    "details": {"sent": "float32", "received": "int32"},
}


def faulty(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(4), 1)  # fault
    else:
        labels = torch.zeros(4, dtype=torch.int32)
        dist.recv(labels, 0)  # fault
        return labels


def correct(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(4).to(torch.int32), 1)
    else:
        labels = torch.zeros(4, dtype=torch.int32)
        dist.recv(labels, 0)
        return labels
