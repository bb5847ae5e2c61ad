"""Two groups are made in other orders on two ranks.

Does: Each rank makes a group of ranks 0 and 1 and one of ranks 1 and 2; rank 1 makes the second one
first.

Wrong: Groups are told apart by their number. The first group is one of ranks 0 and 1 to ranks 0 and
2, and one of ranks 1 and 2 to rank 1, and its members meet in the call.

Shows: All ranks hang in new_group. It looks as if each were only slow, so that nothing is proved.

Instead: The same order of groups on every rank.
"""

import torch.distributed as dist

LABEL = {
    "class": "groups",
    "scope": "program",
    "source": "MPI Bugs Initiative (communicators made in different orders)",
    "world": 3,
    "code": "timeout",
    "ranks": [0, 1, 2],
    "options": {"timeout": 2},
}


def faulty(rank, world_size):
    pairs = [[0, 1], [1, 2]] if rank != 1 else [[1, 2], [0, 1]]
    groups = [dist.new_group(pair) for pair in pairs]  # fault
    dist.barrier()
    return len(groups)


def correct(rank, world_size):
    groups = [dist.new_group(pair) for pair in ([0, 1], [1, 2])]
    dist.barrier()
    return len(groups)
