"""Both ranks receive before they send.

Does: Each of two ranks waits for the other's tensor, and would then send its own.

Wrong: Each message would be sent only after the other has come.

Shows: Both ranks hang until the group's timeout, on every backend: no buffer helps, for nothing
has been sent.

Instead: Post the receive and the send of each rank as one batch_isend_irecv.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "call-ordering",
    "scope": "program",
    "source": "MPI Bugs Initiative (call ordering)",
    "world": 2,
    "code": "deadlock",
    "cause": "order",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    mine, theirs = torch.full((4,), float(rank)), torch.empty(4)
    dist.recv(theirs, 1 - rank)  # fault
    dist.send(mine, 1 - rank)


def correct(rank, world_size):
    mine, theirs = torch.full((4,), float(rank)), torch.empty(4)
    exchange = [
        dist.P2POp(dist.irecv, theirs, 1 - rank),
        dist.P2POp(dist.isend, mine, 1 - rank),
    ]
    for work in dist.batch_isend_irecv(exchange):
        work.wait()
