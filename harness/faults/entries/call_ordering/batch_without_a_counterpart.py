"""One of the operations of a batch has no counterpart.

Does: Both ranks exchange tensors in one batch; rank 0 also receives a second one in it.

Wrong: Rank 1 never sends a second tensor.

Shows: Rank 0 hangs in the wait for the batch. On NCCL it is the batch's end that hangs, without a
request that could time out.

Instead: As many receives as the peer sends.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "call-ordering",
    "scope": "program",
    "source": "pytorch#120683",
    "world": 2,
    "code": "orphan-wait",
    "cause": "missing-send",
    "ranks": [0],
}


def _exchange(rank, receives):
    sent = torch.ones(4)
    batch = [dist.P2POp(dist.isend, sent, 1 - rank)]
    batch += [dist.P2POp(dist.irecv, torch.zeros(4), 1 - rank) for _ in range(receives)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()  # fault


def faulty(rank, world_size):
    _exchange(rank, receives=2 if rank == 0 else 1)


def correct(rank, world_size):
    _exchange(rank, receives=1)
