"""All ranks send to all others before they receive anything.

Does: Each of three ranks sends a part to each other one, then receives a part from each.

Wrong: The first send of each rank ends only when a receive is posted, to which no rank comes.

Shows: Ranks 0 and 1 wait for each other, and rank 2 for rank 0. Finishes with buffered sends.

Instead: all_to_all_single, which does this in one call.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "buffering",
    "scope": "program",
    "source": "MPI Bugs Initiative (buffering, all to all by messages)",
    "world": 3,
    "code": "deadlock",
    "cause": "needs-buffering",
    "ranks": [0, 1],
    "semantics": {"buffered": None},
}


def faulty(rank, world_size):
    sent, received = torch.full((6,), float(rank)), torch.zeros(6)
    others = [peer for peer in range(world_size) if peer != rank]
    for peer in others:
        dist.send(sent[2 * peer : 2 * peer + 2], peer)  # fault
    for peer in others:
        dist.recv(received[2 * peer : 2 * peer + 2], peer)


def correct(rank, world_size):
    sent, received = torch.full((6,), float(rank)), torch.zeros(6)
    dist.all_to_all_single(received, sent)
