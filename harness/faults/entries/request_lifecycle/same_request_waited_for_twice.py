"""One request is waited for twice.

Does: Rank 1 posts receives for weight and bias. By a slip of the pen both waits are for the
weight's.

Wrong: A message ends one wait. On gloo the second wait for the same request waits for another
message into the same buffer; and the bias is never waited for.

Shows: Rank 1 hangs in the second wait on gloo, though both messages have come. On NCCL the second
wait returns at once, and the bias may be used too early.

Instead: Wait for each request of a send or receive once. (A collective's may be waited for again.)
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "request-lifecycle",
    "scope": "program",
    "source": "measured on torch 2.13: the second wait for a receive never ends on gloo",
    "world": 2,
    "code": "timeout",
    "ranks": [1],
    "backends": {"nccl": "unawaited-request"},
    "options": {"timeout": 2},
}


def faulty(rank, world_size):
    weight, bias = torch.zeros(4), torch.zeros(2)
    if rank == 0:
        dist.send(weight, 1)
        dist.send(bias, 1)
    else:
        for_weight = dist.irecv(weight, 0)
        for_bias = dist.irecv(bias, 0)
        for_weight.wait()
        for_weight.wait()  # fault
        return for_bias


def correct(rank, world_size):
    weight, bias = torch.zeros(4), torch.zeros(2)
    if rank == 0:
        dist.send(weight, 1)
        dist.send(bias, 1)
    else:
        for_weight = dist.irecv(weight, 0)
        for_bias = dist.irecv(bias, 0)
        for_weight.wait()
        for_bias.wait()
