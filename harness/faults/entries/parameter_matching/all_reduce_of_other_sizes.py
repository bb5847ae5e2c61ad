"""The ranks sum tensors of different sizes.

Does: Each rank counts its samples by class, and sums the counts; rank 1 has seen one class more.

Wrong: All ranks must give as many elements. The number of classes in the data at hand is not the
number of classes.

Shows: gloo aborts a process, without a Python exception. NCCL reads beyond the shorter tensor, or
hangs.

Instead: Allocate by the number of classes that there are: torch.bincount has minlength.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "parameter-matching",
    "scope": "program",
    "source": "gloo: all_reduce sizes disagree; MPI Bugs Initiative (parameter matching)",
    "world": 2,
    "code": "collective-mismatch",
    "ranks": [0, 1],
    "details": {"what": "element count"},
}


def faulty(rank, world_size):
    labels = torch.tensor([0, 1, 1, rank + 1])
    dist.all_reduce(torch.bincount(labels))  # fault


def correct(rank, world_size):
    labels = torch.tensor([0, 1, 1, rank + 1])
    dist.all_reduce(torch.bincount(labels, minlength=3))
