"""The script makes the default group, although a helper has done so already.

Does: A helper makes the process group when it is first used; the script then makes it as well.

Wrong: There is one default group in a process.

Shows: init_process_group raises on every rank.

Instead: Ask is_initialized() first, or leave it to one place.
"""

import sys

import torch
import torch.distributed as dist

LABEL = {
    "class": "start-up",
    "scope": "script",
    "source": "course: init_process_group in a helper",
    "world": 2,
    "code": "invalid-argument",
    "ranks": [0, 1],
}


def setup():
    dist.init_process_group("gloo")
    dist.barrier()


def main(variant):
    setup()
    if variant == "faulty" or not dist.is_initialized():
        dist.init_process_group("gloo")  # fault
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
