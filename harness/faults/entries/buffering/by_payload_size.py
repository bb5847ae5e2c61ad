"""Four sends stand before the first receive: small ones pass, large ones hang.

Does: Both ranks post four isends of 4 KiB, then receive four.

Wrong: On NCCL all of it stands in one queue. The receives begin only when all four sends are done,
for which 16 KiB have to be in the buffers.

Shows: Finishes on gloo. On NCCL it depends on the size of the tensors, and on what else is under
way.

Instead: Each send in a batch with the receive that goes the other way.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "buffering",
    "scope": "program",
    "source": "torchrec#4472, nccl#544, pytorch#138074",
    "world": 2,
    "code": "nccl-hazard",
    "cause": "needs-capacity",
    "ranks": [0, 1],
    "details": {"finishes_with_bytes": 16384},
}


def faulty(rank, world_size):
    received = torch.zeros(1024)
    works = [dist.isend(torch.ones(1024), 1 - rank) for _ in range(4)]  # fault
    for _ in range(4):
        dist.recv(received, 1 - rank)  # fault
    for work in works:
        work.wait()


def correct(rank, world_size):
    received = torch.zeros(1024)
    for _ in range(4):
        sent = torch.ones(1024)
        both = [dist.P2POp(dist.isend, sent, 1 - rank), dist.P2POp(dist.irecv, received, 1 - rank)]
        for work in dist.batch_isend_irecv(both):
            work.wait()
