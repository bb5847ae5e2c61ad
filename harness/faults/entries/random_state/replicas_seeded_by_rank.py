"""Replicas start with parameters of their own.

Does: Each rank of a data-parallel group seeds by its number, so that its dropout differs, and then
builds the model.

Wrong: The parameters differ as well. Equal gradients keep the difference between the replicas for
ever.

Shows: Each replica is another model; the averaged gradients are of none of them. The loss falls
more slowly, on all.

Instead: Broadcast the parameters from rank 0 at the start, or seed alike until the model is built.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "random-state",
    "scope": "program",
    "source": "pytorch#139304; TrainVerify (a rank that computes something else)",
    "world": 2,
    "code": "rank-error",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    torch.manual_seed(rank)
    weight = torch.randn(4, 4)
    everyone = [torch.empty_like(weight) for _ in range(world_size)]
    dist.all_gather(everyone, weight)
    alike = all(torch.equal(other, weight) for other in everyone)
    assert alike, "replicas differ"  # fault: here


def correct(rank, world_size):
    torch.manual_seed(rank)
    weight = torch.randn(4, 4)
    dist.broadcast(weight, 0)
    everyone = [torch.empty_like(weight) for _ in range(world_size)]
    dist.all_gather(everyone, weight)
    alike = all(torch.equal(other, weight) for other in everyone)
    assert alike, "replicas differ"
