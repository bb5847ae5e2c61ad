"""The shape of an activation is sent in one group, and awaited in another.

Does: The sender tells the activation's shape in the pipeline's group; the receiver waits for it in
the default group. The activation itself is in the pipeline's on both sides.

Wrong: Messages of different groups never meet, even between the same two ranks.

Shows: Both hang on gloo, the sender in its first send; with buffered sends only the receiver does.
NCCL has a communicator for each group, and hangs as well.

Instead: Shape and activation in the same group, on both sides.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "groups",
    "scope": "program",
    "source": "Megatron#620",
    "world": 2,
    "code": "deadlock",
    "cause": "wrong-group",
    "ranks": [0, 1],
    "semantics": {"buffered": "orphan-wait"},
}


def _transfer(rank, group, shape_group):
    shape, activation = torch.tensor([2, 4]), torch.ones(2, 4)
    if rank == 0:
        dist.send(shape, 1, group=group)  # fault
        dist.send(activation, 1, group=group)
    else:
        dist.recv(shape, 0, group=shape_group)  # fault
        dist.recv(activation, 0, group=group)


def faulty(rank, world_size):
    _transfer(rank, dist.new_group([0, 1]), None)


def correct(rank, world_size):
    group = dist.new_group([0, 1])
    _transfer(rank, group, group)
