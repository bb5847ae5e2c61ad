"""Messages of a subgroup and of the default group hold each other up.

Does: Rank 0 sends to rank 1 in a batch of the default group; rank 1 then sends to rank 2 in a
subgroup. After that all come to a barrier.

Wrong: On NCCL without device_id the default group's communicator is made at its first batch, and
all ranks have to come. Rank 2 waits in the subgroup for rank 1, which is held in the batch.

Shows: Finishes on gloo, and on NCCL with device_id.

Instead: Begin with a collective of the default group.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "groups",
    "scope": "program",
    "source": "pytorch#116590",
    "world": 3,
    "code": "nccl-hazard",
    "cause": "lazy-communicator",
    "ranks": [1, 2],
    "semantics": {"nccl-eager": None},
}


def _relay(rank):
    tensor, part = torch.ones(4), dist.new_group([1, 2])
    if rank == 0:
        dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, 1)])[0].wait()
    elif rank == 1:
        dist.batch_isend_irecv([dist.P2POp(dist.irecv, tensor, 0)])[0].wait()  # fault
        dist.send(tensor, 2, part)
    else:
        dist.recv(tensor, 1, part)  # fault
    dist.barrier()


def faulty(rank, world_size):
    _relay(rank)


def correct(rank, world_size):
    dist.barrier()
    _relay(rank)
