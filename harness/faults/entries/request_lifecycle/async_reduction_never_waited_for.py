"""An all_reduce with async_op, and no wait for it.

Does: Each rank starts to sum its gradient over all ranks, comes to a barrier, and uses the
gradient.

Wrong: Only the handle tells that the sum is there. The barrier is another collective: that it has
ended does not mean that the sum has.

Shows: Nothing fails on gloo, where the sum is mostly done by the barrier. On NCCL the optimizer may
step on another stream with a gradient that is half reduced.

Instead: Keep the handle, and wait for it before the gradient is used.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "request-lifecycle",
    "scope": "program",
    "source": "MPI Bugs Initiative (request lifecycle)",
    "world": 2,
    "code": "unawaited-request",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    gradient = torch.full((4,), rank + 1.0)
    dist.all_reduce(gradient, async_op=True)  # fault
    dist.barrier()
    return gradient / world_size


def correct(rank, world_size):
    gradient = torch.full((4,), rank + 1.0)
    dist.all_reduce(gradient, async_op=True).wait()
    dist.barrier()
    return gradient / world_size
