"""A stage computes on its activation before it has come.

Does: Rank 1 posts the receive, runs its layer on the buffer, and waits after that.

Wrong: Until the wait has ended, the buffer holds what was in it before.

Shows: The output is that of zeros, or of the last microbatch, unless the message was quick. Real
ranks cannot show a read: the simulator watches the operators.

Instead: Wait, then compute. Compute on something else to fill the time.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "local-concurrency",
    "scope": "program",
    "source": "MPI Bugs Initiative (local concurrency)",
    "world": 2,
    "code": "early-read",
    "ranks": [1],
    "semantics": {"nccl-eager": None, "nccl-lazy": None},
    "backends": {"gloo": None},
}


def faulty(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(2, 4), 1)
    else:
        layer, activation = torch.nn.Linear(4, 4), torch.zeros(2, 4)
        work = dist.irecv(activation, 0)  # fault
        output = layer(activation)
        work.wait()
        return output.detach()


def correct(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(2, 4), 1)
    else:
        layer, activation = torch.nn.Linear(4, 4), torch.zeros(2, 4)
        work = dist.irecv(activation, 0)
        work.wait()
        output = layer(activation)
        return output.detach()
