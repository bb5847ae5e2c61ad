"""One rank sums float32 where the others sum int32.

Does: Each rank adds up how many samples it has had; rank 2 has divided, and so has a float.

Wrong: The bytes are summed as whatever type a rank believes in.

Shows: No error on gloo, as four bytes are four bytes; the ranks end with different, absurd sums.

Instead: Convert to one type before the call.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "parameter-matching",
    "scope": "program",
    "source": "MPI Bugs Initiative (parameter matching)",
    "world": 3,
    "code": "collective-mismatch",
    "ranks": [2],
    "details": {"what": "dtype"},
}


def faulty(rank, world_size):
    samples = torch.tensor([8], dtype=torch.int32)
    if rank == 2:
        samples = samples / 2
    dist.all_reduce(samples)  # fault
    return samples


def correct(rank, world_size):
    samples = torch.tensor([8], dtype=torch.int32)
    if rank == 2:
        samples = samples // 2
    dist.all_reduce(samples)
    return samples
