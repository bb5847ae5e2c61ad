"""The receive buffer is smaller than the message.

Does: Rank 0 sends the whole hidden state of 16 elements; rank 1 has room for 8.

Wrong: The sizes of the two sides have to agree; there is no truncated receive.

Shows: On gloo the receiving process is aborted with no Python exception, and the sender sees
success. On NCCL the rest of the message is lost or overwrites other memory, or both sides hang.

Instead: Take both sizes from one place, so that they change together.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "parameter-matching",
    "scope": "program",
    "source": "pytorch#113376, nccl#1938; gloo: receive buffer smaller",
    "world": 2,
    "code": "shape-mismatch",
    "ranks": [0, 1],
    "details": {"sent": [16], "received": [8]},
}


def faulty(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(16), 1)  # fault
    else:
        dist.recv(torch.empty(8), 0)  # fault


def correct(rank, world_size):
    hidden = 16
    if rank == 0:
        dist.send(torch.ones(hidden), 1)
    else:
        dist.recv(torch.empty(hidden), 0)
