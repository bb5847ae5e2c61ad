"""A rank within the group is taken for a global one, and is another member.

Does: Ranks 1, 2 and 3 of four are a pipeline. The first stage sends to the last, computed as rank 2
of the group.

Wrong: dst is a global rank: 2 is the middle stage, which receives nothing.

Shows: Rank 1 hangs in its send, when rank 2 has finished, and rank 3 in its receive. Where the
group is all ranks, nothing shows.

Instead: Pass group_dst=, or get_global_rank(group, rank).
"""

import time

import torch
import torch.distributed as dist

LABEL = {
    "class": "groups",
    "scope": "program",
    "source": "pytorch#187924",
    "world": 4,
    "code": "orphan-wait",
    "cause": "wrong-peer",
    "ranks": [1],
}


def faulty(rank, world_size):
    group, tensor = dist.new_group([1, 2, 3]), torch.ones(4)
    stage = dist.get_rank(group)
    if stage == 0:
        dist.send(tensor, 2, group=group)  # fault
    elif stage == 2:
        dist.recv(tensor, group_src=0, group=group)
    else:
        time.sleep(0.3)  # its own work


def correct(rank, world_size):
    group, tensor = dist.new_group([1, 2, 3]), torch.ones(4)
    stage = dist.get_rank(group)
    if stage == 0:
        dist.send(tensor, group_dst=2, group=group)
    elif stage == 2:
        dist.recv(tensor, group_src=0, group=group)
    else:
        time.sleep(0.3)  # its own work
