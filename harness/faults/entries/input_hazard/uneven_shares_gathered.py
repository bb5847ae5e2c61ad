"""The shares of the ranks differ in a world that does not divide the work.

Does: Four samples are shared out to the ranks, and each rank's losses are gathered on all.

Wrong: all_gather needs as many elements from each rank. On 3 ranks the shares are 2, 1 and 1.

Shows: A process is aborted or refused on gloo, for worlds that do not divide 4. On 1, 2 and 4 ranks
it is right.

Instead: Pad the shares to one size, or gather objects.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "input-hazard",
    "scope": "program",
    "source": "MPI Bugs Initiative (input hazard)",
    "world": 3,
    "code": "collective-mismatch",
    "ranks": [0],
    "details": {"what": "element count"},
}


def faulty(rank, world_size):
    share = torch.arange(4.0).tensor_split(world_size)[rank]
    gathered = [torch.empty_like(share) for _ in range(world_size)]
    dist.all_gather(gathered, share)  # fault


def correct(rank, world_size):
    share = torch.arange(4.0).tensor_split(world_size)[rank]
    largest = -(-4 // world_size)
    share = torch.nn.functional.pad(share, (0, largest - len(share)))
    gathered = [torch.empty_like(share) for _ in range(world_size)]
    dist.all_gather(gathered, share)
