"""Messages that have nothing to do with each other stand in one queue.

Does: Each of three ranks posts its receive from the rank before it, then its send to the next, and
waits for the send first.

Wrong: On NCCL a communicator is one queue. Each send stands behind a receive whose message stands
behind a receive on the rank before, all around the ring.

Shows: Finishes on gloo, where nothing waits behind anything. With NCCL's queue of the whole group
(a group made with device_id) all ranks hang, whatever the buffers hold.

Instead: Rank 0 sends first and the others receive first, so that the messages follow each other.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "call-ordering",
    "scope": "program",
    "source": "pytorch#195760, pytorch#186173",
    "world": 3,
    "code": "nccl-hazard",
    "ranks": [0, 1, 2],
    "cause": "queue-order",
    "semantics": {"nccl-lazy": None},
}


def _meet(rank, world_size):
    """Let each pair use its communicator once, all ranks in the same order of pairs."""
    for low, high in ((0, 1), (0, 2), (1, 2)):
        if rank == low:
            dist.send(torch.ones(1), high)
        elif rank == high:
            dist.recv(torch.ones(1), low)


def faulty(rank, world_size):
    _meet(rank, world_size)
    sent, received = torch.ones(4), torch.zeros(4)
    early = dist.irecv(received, (rank - 1) % world_size)  # fault
    late = dist.isend(sent, (rank + 1) % world_size)  # fault
    late.wait()  # fault
    early.wait()


def correct(rank, world_size):
    _meet(rank, world_size)
    sent, received = torch.ones(4), torch.zeros(4)
    before, after = (rank - 1) % world_size, (rank + 1) % world_size
    if rank == 0:
        dist.send(sent, after)
        dist.recv(received, before)
    else:
        dist.recv(received, before)
        dist.send(sent, after)
