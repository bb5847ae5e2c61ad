"""Every pair's communicator is made at its first message, around a ring.

Does: Each of three ranks first sends to the next and then receives from the one before.

Wrong: On NCCL without device_id a pair's communicator is made when both its ranks first use it, and
the call waits for that. Each rank is held in the call for the next one.

Shows: Finishes on gloo. Hangs on NCCL without device_id at the first messages, whatever the buffers
hold; with device_id it is a matter of buffers.

Instead: Post both directions as one batch_isend_irecv, which uses the group's communicator.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "start-up",
    "scope": "program",
    "source": "pytorch#160210",
    "world": 3,
    "code": "nccl-hazard",
    "cause": "lazy-communicator",
    "ranks": [0, 1, 2],
}


def faulty(rank, world_size):
    sent, received = torch.ones(4), torch.zeros(4)
    work = dist.isend(sent, (rank + 1) % world_size)  # fault
    dist.recv(received, (rank - 1) % world_size)  # fault
    work.wait()


def correct(rank, world_size):
    sent, received = torch.ones(4), torch.zeros(4)
    ring = [
        dist.P2POp(dist.isend, sent, (rank + 1) % world_size),
        dist.P2POp(dist.irecv, received, (rank - 1) % world_size),
    ]
    for work in dist.batch_isend_irecv(ring):
        work.wait()
