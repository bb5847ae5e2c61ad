"""Both ranks post their sends ahead of their receives, in one queue.

Does: Two ranks exchange tensors by isend, recv, wait: the sends have been moved one step up, to
start early.

Wrong: On NCCL each receive stands behind its own rank's send, which without buffer space ends only
when the other rank's receive runs.

Shows: Finishes on gloo. On NCCL both ranks hang as soon as the tensors do not fit the buffers.

Instead: Post both directions as one batch_isend_irecv.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "buffering",
    "scope": "program",
    "source": "pytorch#127332",
    "world": 2,
    "code": "nccl-hazard",
    "cause": "needs-capacity",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    sent, received = torch.ones(1024), torch.zeros(1024)
    work = dist.isend(sent, 1 - rank)  # fault
    dist.recv(received, 1 - rank)  # fault
    work.wait()


def correct(rank, world_size):
    sent, received = torch.ones(1024), torch.zeros(1024)
    both = [dist.P2POp(dist.isend, sent, 1 - rank), dist.P2POp(dist.irecv, received, 1 - rank)]
    for work in dist.batch_isend_irecv(both):
        work.wait()
