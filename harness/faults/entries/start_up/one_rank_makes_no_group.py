"""One rank leaves before it has made the process group.

Does: Rank 1 finds nothing to do and leaves; rank 0 makes the group.

Wrong: init_process_group waits for all ranks.

Shows: Rank 0 hangs in init_process_group.

Instead: All ranks make the group; those without work leave after it.
"""

import os
import sys

import torch
import torch.distributed as dist

LABEL = {
    "class": "start-up",
    "scope": "script",
    "source": "MPI Bugs Initiative (missing MPI_Init on a rank)",
    "world": 2,
    "code": "orphan-wait",
    "cause": "missing-collective",
    "ranks": [0],
}


def main(variant):
    if os.environ["RANK"] == "0" or variant == "correct":
        dist.init_process_group("gloo")  # fault
        dist.all_reduce(torch.ones(1))
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
