"""What one rank sends in an all_to_all is not what the other expects.

Does: Rank 1 sends one of its four tokens to rank 0, which expects two from each rank.

Wrong: Rank i's input split for j is rank j's output split for i. They are not sent along.

Shows: On gloo the rest of rank 0's buffer keeps its old values, in silence. NCCL may hang.

Instead: Exchange the counts first, with an all_to_all of one number each.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "parameter-matching",
    "scope": "program",
    "source": "MPI Bugs Initiative (parameter matching)",
    "world": 2,
    "code": "collective-mismatch",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    sent, taken = ([2, 2], [2, 2]) if rank == 0 else ([1, 3], [2, 3])
    dist.all_to_all_single(torch.zeros(sum(taken)), torch.ones(4), taken, sent)  # fault


def correct(rank, world_size):
    sent = torch.tensor([2, 2] if rank == 0 else [1, 3])
    taken = torch.empty_like(sent)
    dist.all_to_all_single(taken, sent)
    sent, taken = sent.tolist(), taken.tolist()
    dist.all_to_all_single(torch.zeros(sum(taken)), torch.ones(4), taken, sent)
