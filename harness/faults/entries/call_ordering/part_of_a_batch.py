"""A rank waits for one operation of a batch, and gets to wait for all of it.

Does: Rank 0 batches a question with the receive of its answer, waits for the question only, and
then sends the word to go on, upon which rank 1 answers.

Wrong: On gloo each operation of a batch has its own request; on NCCL the batch has one for all.

Shows: Finishes on gloo; hangs on NCCL, where rank 0 waits for the answer as well.

Instead: What is waited for at different times is in batches of its own.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "call-ordering",
    "scope": "program",
    "source": "pytorch#132644, nccl#2130",
    "world": 2,
    "code": "nccl-hazard",
    "cause": "batch-shape",
    "ranks": [0, 1],
}


def _batch(*operations):
    return dist.batch_isend_irecv([dist.P2POp(*operation) for operation in operations])  # fault


def faulty(rank, world_size):
    dist.barrier()
    question, answer, go = torch.ones(4), torch.zeros(4), torch.ones(1)
    if rank == 0:
        sent, received = _batch((dist.isend, question, 1), (dist.irecv, answer, 1))
        sent.wait()  # fault
        _batch((dist.isend, go, 1))[0].wait()
        received.wait()
    else:
        _batch((dist.irecv, question, 0))[0].wait()
        _batch((dist.irecv, go, 0))[0].wait()  # fault
        _batch((dist.isend, answer, 0))[0].wait()


def correct(rank, world_size):
    dist.barrier()
    question, answer, go = torch.ones(4), torch.zeros(4), torch.ones(1)
    if rank == 0:
        _batch((dist.isend, question, 1))[0].wait()
        _batch((dist.isend, go, 1))[0].wait()
        _batch((dist.irecv, answer, 1))[0].wait()
    else:
        _batch((dist.irecv, question, 0))[0].wait()
        _batch((dist.irecv, go, 0))[0].wait()
        _batch((dist.isend, answer, 0))[0].wait()
