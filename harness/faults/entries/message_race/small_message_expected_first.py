"""The receiver counts on the small message to come before the large one.

Does: Rank 0 posts a large tensor and then its small header; rank 1 receives the header first.

Wrong: Messages of one pair and tag never overtake: the first receive takes the first send, whatever
their sizes are.

Shows: The receive of the header gets the tensor: the process is aborted on gloo.

Instead: Send in the order in which the other side receives.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "message-race",
    "scope": "program",
    "source": "MPI Bugs Initiative (message race, overtaking)",
    "world": 2,
    "code": "shape-mismatch",
    "ranks": [0, 1],
    "details": {"sent": [64], "received": [1]},
}


def faulty(rank, world_size):
    header, body = torch.tensor([64.0]), torch.ones(64)
    if rank == 0:
        works = [dist.isend(body, 1)]  # fault
        works += [dist.isend(header, 1)]
        for work in works:
            work.wait()
    else:
        dist.recv(header, 0)  # fault
        dist.recv(body, 0)


def correct(rank, world_size):
    header, body = torch.tensor([64.0]), torch.ones(64)
    if rank == 0:
        works = [dist.isend(header, 1), dist.isend(body, 1)]
        for work in works:
            work.wait()
    else:
        dist.recv(header, 0)
        dist.recv(body, 0)
