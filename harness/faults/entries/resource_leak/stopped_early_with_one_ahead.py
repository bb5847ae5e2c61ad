"""Training stops early, and the microbatch that was sent ahead stays behind.

Does: Rank 0 always has one isend under way, the next microbatch's. At a certain microbatch both
ranks stop.

Wrong: When they stop, one more microbatch is on its way. Nobody receives it, and its handle is
dropped.

Shows: Nothing on gloo, where the message is withdrawn; with buffered sends it is left over. On NCCL
the send stays in the queue, and the end of the program may hang in it.

Instead: Receive what is under way before stopping, or look whether to stop before sending ahead.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "resource-leak",
    "scope": "program",
    "source": "MPI Bugs Initiative (resource leak)",
    "world": 2,
    "code": "dropped-request",
    "ranks": [0],
    "semantics": {"buffered": "unreceived-message"},
    "backends": {"nccl": "unreceived-message"},
}


def faulty(rank, world_size):
    stop = 1
    if rank == 0:
        ahead = dist.isend(torch.zeros(4), 1)
        for number in range(1, 4):
            ahead.wait()
            ahead = dist.isend(torch.full((4,), float(number)), 1)  # fault
            if number > stop:
                return
    else:
        for number in range(4):
            dist.recv(torch.empty(4), 0)
            if number == stop:
                return


def correct(rank, world_size):
    stop = 1
    if rank == 0:
        ahead = dist.isend(torch.zeros(4), 1)
        for number in range(1, 4):
            ahead.wait()
            ahead = dist.isend(torch.full((4,), float(number)), 1)
            if number > stop:
                ahead.wait()
                return
    else:
        for number in range(4):
            dist.recv(torch.empty(4), 0)
            if number == stop:
                dist.recv(torch.empty(4), 0)
                return
