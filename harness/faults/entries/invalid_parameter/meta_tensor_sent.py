"""A stage that was built on the meta device sends what it computes.

Does: Rank 0 builds its layer on the meta device to save memory, forgets to materialize it, and
sends its output.

Wrong: A meta tensor has a shape and no data. No backend is there for it.

Shows: An error on rank 0 that names the device type; its peer waits.

Instead: Materialize the layer with to_empty and load its parameters before the first forward.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "invalid-parameter",
    "scope": "program",
    "source": "MPI Bugs Initiative (invalid parameter); gloo: wrong device",
    "world": 2,
    "code": "invalid-argument",
    "ranks": [0],
}


def faulty(rank, world_size):
    with torch.device("meta" if rank == 0 else "cpu"):
        activation = torch.nn.Linear(4, 4)(torch.ones(1, 4)).detach()
    if rank == 0:
        dist.send(activation, 1)  # fault
    else:
        dist.recv(activation, 0)


def correct(rank, world_size):
    with torch.device("cpu"):
        activation = torch.nn.Linear(4, 4)(torch.ones(1, 4)).detach()
    if rank == 0:
        dist.send(activation, 1)
    else:
        dist.recv(activation, 0)
