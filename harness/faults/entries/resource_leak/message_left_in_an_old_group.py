"""A message is left behind in a group that is no longer used.

Does: Each round makes a new group. Rank 0 sends in every round, rank 1 skips the last receive.

Wrong: A later receive in another group can never take that message: groups share nothing.

Shows: Nothing, on gloo. That the groups themselves are not destroyed is untidy, and harmless.

Instead: Receive in the group in which it was sent. The correct program makes its groups anew as
well.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "resource-leak",
    "scope": "program",
    "source": "MPI Bugs Initiative (resource leak)",
    "world": 2,
    "code": "unreceived-message",
    "ranks": [0, 1],
}

_in_flight = []


def faulty(rank, world_size):
    for number in range(3):
        group = dist.new_group()
        if rank == 0:
            _in_flight.append(dist.isend(torch.ones(2), 1, group=group))  # fault
        elif number < 2:
            dist.recv(torch.empty(2), 0, group=group)
        if rank == 0 and number < 2:
            _in_flight[number].wait()


def correct(rank, world_size):
    for number in range(3):
        group = dist.new_group()
        if rank == 0:
            _in_flight.append(dist.isend(torch.ones(2), 1, group=group))
        else:
            dist.recv(torch.empty(2), 0, group=group)
        if rank == 0:
            _in_flight[number].wait()
