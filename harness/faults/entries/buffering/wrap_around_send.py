"""The send from the last rank back to the first meets a send the other way.

Does: Two ranks hold stages 0 and 2, and 1 and 3. Rank 0 sends all its activations of stage 0; rank
1 sends each one on to stage 2, back on rank 0, as soon as it has it.

Wrong: While rank 0 sends the second microbatch, rank 1 sends the first one back.

Shows: Both hang on gloo from two microbatches on; on NCCL where the activations do not fit the
buffers, which once depended on whether the ranks were on one host.

Instead: Rank 1 sends back only when it has received all of them.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "buffering",
    "scope": "program",
    "source": "pytorch#127796",
    "world": 2,
    "code": "deadlock",
    "cause": "needs-buffering",
    "ranks": [0, 1],
    "semantics": {"buffered": None},
}

CHUNKS = 2


def faulty(rank, world_size):
    activations = [torch.full((4,), float(number)) for number in range(CHUNKS)]
    if rank == 0:
        for activation in activations:
            dist.send(activation, 1)  # fault
        for activation in activations:
            dist.recv(activation, 1)
    else:
        for activation in activations:
            dist.recv(activation, 0)
            dist.send(activation * 2, 0)  # fault


def correct(rank, world_size):
    activations = [torch.full((4,), float(number)) for number in range(CHUNKS)]
    if rank == 0:
        for activation in activations:
            dist.send(activation, 1)
        for activation in activations:
            dist.recv(activation, 1)
    else:
        for activation in activations:
            dist.recv(activation, 0)
        for activation in activations:
            dist.send(activation * 2, 0)
