"""Two inputs of a stage are received in one batch, and one of them is not sent in one.

Does: Stage 2 takes the output of stage 1 and, past it, that of stage 0, in one batch. Stage 1 sends
its part by itself.

Wrong: On NCCL without device_id the batch goes over the group's communicator, and the single send
over the pair's.

Shows: Finishes on gloo, and on NCCL with device_id; else ranks 1 and 2 hang.

Instead: Send in a batch what is received in one.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "call-ordering",
    "scope": "program",
    "source": "PiPPy#969",
    "world": 3,
    "code": "nccl-hazard",
    "cause": "batch-shape",
    "ranks": [1, 2],
    "semantics": {"nccl-eager": None},
}


def _batch(*operations):
    works = dist.batch_isend_irecv([dist.P2POp(*operation) for operation in operations])  # fault
    for work in works:
        work.wait()  # fault


def faulty(rank, world_size):
    dist.barrier()
    tensor, skipped = torch.ones(4), torch.ones(4)
    if rank == 0:
        _batch((dist.isend, tensor, 1), (dist.isend, skipped, 2))
    elif rank == 1:
        _batch((dist.irecv, tensor, 0))
        dist.send(tensor, 2)  # fault
    else:
        _batch((dist.irecv, skipped, 0), (dist.irecv, tensor, 1))


def correct(rank, world_size):
    dist.barrier()
    tensor, skipped = torch.ones(4), torch.ones(4)
    if rank == 0:
        _batch((dist.isend, tensor, 1), (dist.isend, skipped, 2))
    elif rank == 1:
        _batch((dist.irecv, tensor, 0))
        _batch((dist.isend, tensor, 2))
    else:
        _batch((dist.irecv, skipped, 0), (dist.irecv, tensor, 1))
