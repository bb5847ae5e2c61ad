"""Every message is answered, and nobody reads the answers.

Does: Rank 1 sends a flag back for each microbatch that it has received; rank 0 sends its
microbatches and reads no flag.

Wrong: A send is a promise that there is a receive, also for one number.

Shows: Deadlock on gloo: rank 1 in its first answer, rank 0 in its second microbatch. Where sends
are buffered nothing hangs and the answers pile up.

Instead: Read the answers, or send none.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "resource-leak",
    "scope": "program",
    "source": "MPI Bugs Initiative (resource leak)",
    "world": 2,
    "code": "deadlock",
    "cause": "missing-receive",
    "ranks": [0, 1],
    "semantics": {"buffered": "unreceived-message"},
}


def faulty(rank, world_size):
    for number in range(3):
        if rank == 0:
            dist.send(torch.full((4,), float(number)), 1)  # fault
        else:
            dist.recv(torch.empty(4), 0)
            dist.send(torch.ones(1), 0)  # fault


def correct(rank, world_size):
    for number in range(3):
        if rank == 0:
            dist.send(torch.full((4,), float(number)), 1)
            dist.recv(torch.empty(1), 1)
        else:
            dist.recv(torch.empty(4), 0)
            dist.send(torch.ones(1), 0)
