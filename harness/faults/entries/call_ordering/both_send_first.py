"""Both ranks send before they receive.

Does: Each of two ranks sends its tensor to the other, then receives the other's.

Wrong: A send ends when its receive is posted, and neither rank comes to its receive.

Shows: Both ranks hang until the group's timeout, at any size on gloo; on NCCL from the size at
which the transport's buffers are full.

Instead: One rank receives first; or isend, then recv, then wait; or both in one batch_isend_irecv.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "call-ordering",
    "scope": "program",
    "source": "MPI Bugs Initiative (call ordering)",
    "world": 2,
    "code": "deadlock",
    "cause": "needs-buffering",
    "ranks": [0, 1],
    "semantics": {"buffered": None},
}


def faulty(rank, world_size):
    mine, theirs = torch.full((4,), float(rank)), torch.empty(4)
    dist.send(mine, 1 - rank)  # fault
    dist.recv(theirs, 1 - rank)


def correct(rank, world_size):
    mine, theirs = torch.full((4,), float(rank)), torch.empty(4)
    exchange = [
        dist.P2POp(dist.isend, mine, 1 - rank),
        dist.P2POp(dist.irecv, theirs, 1 - rank),
    ]
    for work in dist.batch_isend_irecv(exchange):
        work.wait()
