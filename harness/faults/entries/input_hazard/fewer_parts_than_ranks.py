"""The batch is scattered in fewer parts than there are ranks.

Does: Rank 0 cuts four samples into world_size parts with torch.chunk, and scatters them.

Wrong: torch.chunk makes parts of ceil(4 / 3) = 2 samples: there are two of them, for three ranks.

Shows: Rank 0 is refused, the others wait. In worlds of 1, 2 and 4 it is right.

Instead: Refuse such a world by name, or pad the batch to a multiple of world_size.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "input-hazard",
    "scope": "program",
    "source": "pytorch#126600: torch.chunk gives fewer parts; MPI Bugs Initiative (input hazard)",
    "world": 3,
    "code": "invalid-argument",
    "ranks": [0],
}


def faulty(rank, world_size):
    batch = torch.arange(4.0)
    parts = list(batch.chunk(world_size)) if rank == 0 else None
    dist.scatter(torch.empty(-(-4 // world_size)), parts, src=0)  # fault


def correct(rank, world_size):
    batch = torch.nn.functional.pad(torch.arange(4.0), (0, -4 % world_size))
    parts = list(batch.chunk(world_size)) if rank == 0 else None
    dist.scatter(torch.empty(len(batch) // world_size), parts, src=0)
