"""Blocking sends are received in the other order, told apart by their tags.

Does: Rank 0 sends the tensor of tag 1 and then that of tag 2; rank 1 receives tag 2 first.

Wrong: The first send ends only when tag 1 is received, and rank 1 waits for tag 2 before that.

Shows: Both hang on gloo at any size. With buffered sends it finishes; NCCL has no tags, and would
hand over the wrong tensors.

Instead: Receive in the order of the sends.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "buffering",
    "scope": "program",
    "source": "MPI Bugs Initiative (buffering, tags in another order)",
    "world": 2,
    "code": "deadlock",
    "cause": "needs-buffering",
    "ranks": [0, 1],
    "semantics": {"buffered": None, "nccl-eager": "nccl-hazard", "nccl-lazy": "nccl-hazard"},
}


def faulty(rank, world_size):
    for tag in (1, 2) if rank == 0 else (2, 1):
        tensor = torch.full((4,), float(tag))
        if rank == 0:
            dist.send(tensor, 1, tag=tag)  # fault
        else:
            dist.recv(tensor, 0, tag=tag)  # fault


def correct(rank, world_size):
    for tag in (1, 2):
        tensor = torch.full((4,), float(tag))
        if rank == 0:
            dist.send(tensor, 1, tag=tag)
        else:
            dist.recv(tensor, 0, tag=tag)
