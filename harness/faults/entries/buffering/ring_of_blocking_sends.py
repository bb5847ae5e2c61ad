"""Every rank of a ring sends to the next before it receives.

Does: Three ranks pass their tensors on around a ring: send to the next, then receive from the one
before.

Wrong: Each send ends when its receive is posted, and no rank comes to its receive.

Shows: All ranks hang on gloo at any size; on NCCL from the size at which the buffers are full.

Instead: Post both directions of each rank as one batch_isend_irecv.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "buffering",
    "scope": "program",
    "source": "MPI Bugs Initiative (ring with blocking sends)",
    "world": 3,
    "code": "deadlock",
    "cause": "needs-buffering",
    "ranks": [0, 1, 2],
    "semantics": {"buffered": None},
}


def faulty(rank, world_size):
    sent, received = torch.full((4,), float(rank)), torch.zeros(4)
    dist.send(sent, (rank + 1) % world_size)  # fault
    dist.recv(received, (rank - 1) % world_size)


def correct(rank, world_size):
    sent, received = torch.full((4,), float(rank)), torch.zeros(4)
    ring = [
        dist.P2POp(dist.isend, sent, (rank + 1) % world_size),
        dist.P2POp(dist.irecv, received, (rank - 1) % world_size),
    ]
    for work in dist.batch_isend_irecv(ring):
        work.wait()
