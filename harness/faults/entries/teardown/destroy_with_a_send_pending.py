"""The group is destroyed while a send is pending.

Does: Rank 0 posts an isend and destroys the group; rank 1 receives.

Wrong: Nobody has waited for the send. With the group it goes, whether or not it has been received.

Shows: A race on gloo: the message may arrive, or rank 1 sees a closed connection. On NCCL the
communicator is aborted.

Instead: Wait for every request before destroy_process_group.
"""

import time

import torch
import torch.distributed as dist

LABEL = {
    "class": "teardown",
    "scope": "program",
    "source": "PiPPy#1139",
    "world": 2,
    "code": "early-destroy",
    "ranks": [0],
}


def _send_and_leave(rank, waits):
    tensor = torch.ones(4)
    if rank == 0:
        work = dist.isend(tensor, 1)  # fault
        if waits:
            work.wait()
    else:
        time.sleep(0.3)
        dist.recv(tensor, 0)
    dist.destroy_process_group()


def faulty(rank, world_size):
    _send_and_leave(rank, waits=False)


def correct(rank, world_size):
    _send_and_leave(rank, waits=True)
