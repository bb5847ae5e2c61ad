"""A rank destroys the group and leaves, with a message still to be taken from it.

Does: Rank 0 has sent all that it means to and destroys the group; rank 1 waits for one more.

Wrong: The ranks do not agree about who is the last to speak.

Shows: Rank 1 hangs, or sees a closed connection.

Instead: A barrier before destroy_process_group, and as many sends as receives.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "teardown",
    "scope": "program",
    "source": "course: destroy_process_group in the end",
    "world": 2,
    "code": "orphan-wait",
    "cause": "missing-send",
    "ranks": [1],
}


def _last_words(rank, messages):
    tensor = torch.ones(4)
    if rank == 0:
        for _ in range(messages):
            dist.send(tensor, 1)
    else:
        for _ in range(2):
            dist.recv(tensor, 0)  # fault
    dist.destroy_process_group()


def faulty(rank, world_size):
    _last_words(rank, 1)


def correct(rank, world_size):
    _last_words(rank, 2)
