"""The waits leave out the first request of each step.

Does: Rank 1 posts a receive for each of three microbatches, and waits for all but the first, which
it takes for done because it was posted first.

Wrong: Requests end in no fixed order, and one that is not waited for is not known to have ended.

Shows: Only when the sender is late: then the first microbatch is summed as zeros. On real ranks the
missing wait is seen, the read is not.

Instead: Wait for every request before its buffer is used.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "request-lifecycle",
    "scope": "program",
    "source": "PiPPy#1053, PiPPy#1088: works never waited for",
    "world": 2,
    "code": "early-read",
    "ranks": [1],
    "semantics": {"nccl-eager": "unawaited-request", "nccl-lazy": "unawaited-request"},
    "backends": {"gloo": "unawaited-request"},
}


def faulty(rank, world_size):
    if rank == 0:
        for number in range(3):
            dist.send(torch.full((4,), number + 1.0), 1)
        return None
    buffers = [torch.zeros(4) for _ in range(3)]
    works = [dist.irecv(buffer, 0) for buffer in buffers]  # fault
    for work in works[1:]:
        work.wait()
    return sum(buffers)


def correct(rank, world_size):
    if rank == 0:
        for number in range(3):
            dist.send(torch.full((4,), number + 1.0), 1)
        return None
    buffers = [torch.zeros(4) for _ in range(3)]
    works = [dist.irecv(buffer, 0) for buffer in buffers]
    for work in works:
        work.wait()
    return sum(buffers)
