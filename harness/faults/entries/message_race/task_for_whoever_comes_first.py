"""Which rank gets the last task depends on whose request comes first.

Does: Two workers ask rank 0 for a task. It takes the requests from any source, gives the one task
it has to the first, and an empty answer to the second.

Wrong: Which request comes first is a matter of timing, so another rank works from run to run.

Shows: Everything ends, and nothing is the same twice: samples go to other ranks, and sums are added
in another order. NCCL has no receive from any source.

Instead: Take the requests in the order of the ranks.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "message-race",
    "scope": "program",
    "source": "MPI Bugs Initiative (message race, any source)",
    "world": 3,
    "code": "nondeterminism",
    "ranks": [0],
    "deterministic": False,
    "semantics": {"nccl-eager": None, "nccl-lazy": None},
    "backends": {"gloo": None},
}


def _work(rank, source):
    request, task = torch.ones(1), torch.arange(4.0)
    if rank == 0:
        first = dist.recv(request, source)
        second = dist.recv(request, 3 - first)  # fault
        dist.send(task, first)
        dist.send(torch.zeros(4), second)
    else:
        dist.send(request, 0)
        dist.recv(task, 0)


def faulty(rank, world_size):
    _work(rank, None)


def correct(rank, world_size):
    _work(rank, 1)
