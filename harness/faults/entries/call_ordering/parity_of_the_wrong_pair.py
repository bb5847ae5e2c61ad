"""Even ranks send first, but partners are both even or both odd.

Does: Ranks exchange halves with the rank two further on. Even ranks send first, odd ones receive
first.

Wrong: The odd and even trick needs partners of different parity. Ranks 0 and 2 both send first, and
ranks 1 and 3 both receive first.

Shows: All four hang. With buffered sends ranks 0 and 2 get through, and ranks 1 and 3 still hang.

Instead: Let the lower of the two partners send first.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "call-ordering",
    "scope": "program",
    "source": "MPI Bugs Initiative (call ordering, send and receive by parity)",
    "world": 4,
    "code": "deadlock",
    "cause": "order",
}


def faulty(rank, world_size):
    mine, theirs, partner = torch.full((4,), float(rank)), torch.empty(4), rank ^ 2
    if rank % 2 == 0:
        dist.send(mine, partner)  # fault
        dist.recv(theirs, partner)
    else:
        dist.recv(theirs, partner)  # fault
        dist.send(mine, partner)


def correct(rank, world_size):
    mine, theirs, partner = torch.full((4,), float(rank)), torch.empty(4), rank ^ 2
    if rank < partner:
        dist.send(mine, partner)
        dist.recv(theirs, partner)
    else:
        dist.recv(theirs, partner)
        dist.send(mine, partner)
