"""The sender loops over one microbatch more than the receiver.

Does: Rank 0 sends three activations, and rank 1 receives two.

Wrong: The third send has no receive.

Shows: On gloo rank 0 hangs in it when rank 1 has finished. With buffered sends the message is left
behind.

Instead: Both loops over the same number.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "teardown",
    "scope": "program",
    "source": "MPI Bugs Initiative (call matching, a receive missing)",
    "world": 2,
    "code": "orphan-wait",
    "cause": "missing-receive",
    "ranks": [0],
    "semantics": {"buffered": "unreceived-message"},
}


def _activations(rank, sent, received):
    activation = torch.ones(4)
    if rank == 0:
        for _ in range(sent):
            dist.send(activation, 1)  # fault
    else:
        for _ in range(received):
            dist.recv(activation, 0)


def faulty(rank, world_size):
    _activations(rank, 3, 2)


def correct(rank, world_size):
    _activations(rank, 3, 3)
