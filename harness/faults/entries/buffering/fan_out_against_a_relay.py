"""A tensor is handed out to two ranks, one of which waits for the other first.

Does: Rank 0 sends to rank 1 and then to rank 2. Rank 2 relays to rank 1, which receives the relayed
tensor first.

Wrong: Rank 0's send to rank 1 ends only when rank 1 has got the relayed one, for which rank 2 needs
rank 0's second send.

Shows: All three hang on gloo, on NCCL with large tensors.

Instead: Rank 0 sends to rank 2 first.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "buffering",
    "scope": "program",
    "source": "MPI Bugs Initiative (buffering, three ranks)",
    "world": 3,
    "code": "deadlock",
    "cause": "needs-buffering",
    "ranks": [0, 1, 2],
    "semantics": {"buffered": None},
}


def _fan_out(rank, order):
    tensor = torch.ones(4)
    if rank == 0:
        for peer in order:
            dist.send(tensor, peer)  # fault
    elif rank == 1:
        dist.recv(tensor, 2)  # fault
        dist.recv(tensor, 0)
    else:
        dist.recv(tensor, 0)  # fault
        dist.send(tensor, 1)


def faulty(rank, world_size):
    _fan_out(rank, (1, 2))


def correct(rank, world_size):
    _fan_out(rank, (2, 1))
