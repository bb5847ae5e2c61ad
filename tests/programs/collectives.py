"""Programs whose collectives go wrong."""

# mypy: ignore-errors

import torch
import torch.distributed as dist


def barrier_on_one_rank(rank, world_size):
    if rank == 1:
        dist.barrier()  # stuck


def one_barrier_left_out(rank, world_size):
    for step in range(3):
        if rank == 0 or step != 1:
            dist.barrier()  # counted


def kinds_differ(rank, world_size):
    tensor = torch.ones(4)
    if rank == 1:
        dist.all_reduce(tensor)  # one
    else:
        dist.broadcast(tensor, 0)  # other


def sizes_differ(rank, world_size):
    dist.all_reduce(torch.ones(4 + rank))  # differ


def dtypes_differ(rank, world_size):
    dist.all_reduce(torch.ones(4, dtype=torch.int32 if rank else torch.float32))


def ops_differ(rank, world_size):
    dist.all_reduce(torch.ones(4), op=dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM)


def roots_differ(rank, world_size):
    dist.broadcast(torch.ones(4), rank)


def group_on_one_rank(rank, world_size):
    if rank == 0:
        dist.new_group([0, 1])  # stuck


def barrier_against_receive(rank, world_size):
    if rank == 0:
        dist.barrier()
    else:
        dist.recv(torch.ones(4), 0)


def swapped_all_reduces(rank, world_size):
    one, other = torch.ones(4), torch.ones(4)
    if rank == 0:
        dist.all_reduce(one)
        dist.all_reduce(other, op=dist.ReduceOp.MAX)
    else:
        dist.all_reduce(other, op=dist.ReduceOp.MAX)
        dist.all_reduce(one)
