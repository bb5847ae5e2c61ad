"""A barrier comes before the process group is made.

Does: The script waits for all ranks before it makes the group.

Wrong: A barrier is a collective of the group, which is not there yet.

Shows: The barrier raises on every rank.

Instead: init_process_group first; it waits for all ranks by itself.
"""

import sys

import torch
import torch.distributed as dist

LABEL = {
    "class": "start-up",
    "scope": "script",
    "source": "MPI Bugs Initiative (call before MPI_Init)",
    "world": 2,
    "code": "invalid-argument",
    "ranks": [0, 1],
}


def main(variant):
    if variant == "faulty":
        dist.barrier()  # fault
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
