"""A message is sent, and no rank ever receives it.

Does: Rank 0 sends its last activation with isend and keeps the handle. Rank 1 has no receive for
it.

Wrong: The send can never end, so nobody may wait for it; and what it carries is not used.

Shows: Nothing on gloo: the program ends, and destroy_process_group succeeds. On NCCL it may hang at
the end.

Instead: Receive what is sent, and wait for the send; or leave it out.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "resource-leak",
    "scope": "program",
    "source": "gloo: exit with an unmatched isend",
    "world": 2,
    "code": "unreceived-message",
    "ranks": [0, 1],
}

_in_flight = []


def faulty(rank, world_size):
    if rank == 0:
        _in_flight.append(dist.isend(torch.ones(4), 1))  # fault
    dist.barrier(group=dist.new_group())


def correct(rank, world_size):
    if rank == 0:
        _in_flight.append(dist.isend(torch.ones(4), 1))
        _in_flight.pop().wait()
    else:
        dist.recv(torch.empty(4), 0)
    dist.barrier(group=dist.new_group())
