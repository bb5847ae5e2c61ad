"""An object is two messages, and one of them is received.

Does: Rank 0 sends its settings with send_object_list. Rank 1 receives a tensor of one integer.

Wrong: send_object_list sends the length first, then the bytes. The receive takes the length for the
value, and the bytes stay behind.

Shows: Rank 0 hangs in send_object_list on gloo; with buffered sends nothing hangs, and the next
receive from rank 0 takes those bytes.

Instead: Receive with recv_object_list what was sent with send_object_list.
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
        dist.send_object_list([16], 1)  # fault
    else:
        chunks = torch.zeros(1, dtype=torch.int64)
        dist.recv(chunks, 0)
        return int(chunks)


def correct(rank, world_size):
    if rank == 0:
        dist.send_object_list([16], 1)
    else:
        chunks = [None]
        dist.recv_object_list(chunks, 0)
        return chunks[0]
