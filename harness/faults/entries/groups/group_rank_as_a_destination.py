"""A rank within the group is given where the global rank is meant.

Does: Ranks 1, 2 and 3 of four are a pipeline. Its first stage sends to the second, computed as rank
1 of the group.

Wrong: dst is a global rank. Rank 1 of the group is rank 2 of all; as a global rank, 1 is the sender
itself.

Shows: The call is refused here. In a larger group it may be another member, which hangs; where the
group is all ranks, the two agree and nothing shows.

Instead: Pass group_dst=, or get_global_rank(group, rank).
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "groups",
    "scope": "program",
    "source": "pytorch#187924",
    "world": 4,
    "code": "invalid-argument",
    "ranks": [1],
}


def faulty(rank, world_size):
    group, tensor = dist.new_group([1, 2, 3]), torch.ones(4)
    stage = dist.get_rank(group)
    if stage == 0:
        dist.send(tensor, stage + 1, group=group)  # fault
    elif stage == 1:
        dist.recv(tensor, group_src=stage - 1, group=group)


def correct(rank, world_size):
    group, tensor = dist.new_group([1, 2, 3]), torch.ones(4)
    stage = dist.get_rank(group)
    if stage == 0:
        dist.send(tensor, group_dst=stage + 1, group=group)
    elif stage == 1:
        dist.recv(tensor, group_src=stage - 1, group=group)
