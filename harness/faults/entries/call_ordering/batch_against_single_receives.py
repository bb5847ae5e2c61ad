"""One end of the messages is in a batch, the other is not.

Does: Rank 0 sends two tensors in one batch_isend_irecv; rank 1 receives them one by one.

Wrong: On NCCL without device_id a batch goes over the group's communicator, and a single receive
over the pair's: they never meet.

Shows: Finishes on gloo, and on NCCL with device_id; else the receiver hangs.

Instead: A batch on both ranks.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "call-ordering",
    "scope": "program",
    "source": "nccl#2130",
    "world": 2,
    "code": "nccl-hazard",
    "cause": "batch-shape",
    "ranks": [0, 1],
    "semantics": {"nccl-eager": None},
}


def faulty(rank, world_size):
    dist.barrier()
    first, second = torch.ones(4), torch.ones(4)
    if rank == 0:
        batch = [dist.P2POp(dist.isend, tensor, 1) for tensor in (first, second)]
        for work in dist.batch_isend_irecv(batch):  # fault
            work.wait()  # fault
    else:
        dist.recv(first, 0)  # fault
        dist.recv(second, 0)


def correct(rank, world_size):
    dist.barrier()
    first, second = torch.ones(4), torch.ones(4)
    do = dist.isend if rank == 0 else dist.irecv
    batch = [dist.P2POp(do, tensor, 1 - rank) for tensor in (first, second)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
