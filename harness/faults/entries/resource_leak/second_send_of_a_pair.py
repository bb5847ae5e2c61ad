"""Of two messages sent together, one is received.

Does: Rank 0 posts the activation and its mask with isend and waits for both; rank 1 receives the
activation.

Wrong: The mask's send has no receive.

Shows: Rank 0 hangs in its second wait on gloo, or sees a closed connection. With buffered sends
nothing shows, and the next receive from rank 0 would take the mask.

Instead: Receive all that is sent, in the order in which it is sent.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "resource-leak",
    "scope": "program",
    "source": "MPI Bugs Initiative (resource leak)",
    "world": 2,
    "code": "orphan-wait",
    "cause": "missing-receive",
    "ranks": [0],
    "semantics": {"buffered": "unreceived-message"},
}


def faulty(rank, world_size):
    if rank == 0:
        activation = dist.isend(torch.ones(4), 1)
        mask = dist.isend(torch.ones(2), 1)
        activation.wait()
        mask.wait()  # fault
    else:
        dist.recv(torch.empty(4), 0)


def correct(rank, world_size):
    if rank == 0:
        activation = dist.isend(torch.ones(4), 1)
        mask = dist.isend(torch.ones(2), 1)
        activation.wait()
        mask.wait()
    else:
        dist.recv(torch.empty(4), 0)
        dist.recv(torch.empty(2), 0)
