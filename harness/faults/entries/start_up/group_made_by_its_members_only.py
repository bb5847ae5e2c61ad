"""new_group is called only by the ranks that are to be in it.

Does: Ranks 0 and 1 of three make a group of theirs in a branch. Then all three make another one.

Wrong: new_group has to be called on every rank, members or not, for groups are told apart by their
number. The second group is the first one to rank 2.

Shows: The ranks hang in the second new_group, on gloo until the timeout.

Instead: Every rank makes every group, in the same order.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "start-up",
    "scope": "program",
    "source": "MPI Bugs Initiative (communicator made by a part of the ranks)",
    "world": 3,
    "code": "timeout",
    "ranks": [0, 1, 2],
    "options": {"timeout": 2},
}


def _make(pair_members):
    if dist.get_rank() in pair_members:
        dist.new_group([0, 1])
    whole = dist.new_group([0, 1, 2])  # fault
    dist.all_reduce(torch.ones(4), group=whole)  # fault


def faulty(rank, world_size):
    _make([0, 1])


def correct(rank, world_size):
    _make([0, 1, 2])
