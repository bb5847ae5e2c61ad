"""Programs in which every rank speaks to its neighbours, and then to all."""

# mypy: ignore-errors

import torch
import torch.distributed as dist


def ring(rank, world_size):
    mine, theirs = torch.full((4,), float(rank + 1)), torch.zeros(4)
    for _ in range(3):
        work = dist.isend(mine, (rank + 1) % world_size)
        dist.recv(theirs, (rank - 1) % world_size)
        work.wait()
        dist.all_reduce(theirs)
    return theirs


def waits_for_its_receive_first(rank, world_size):
    """The send is waited for last, and the other rank needs it before."""
    mine, theirs = torch.ones(2), torch.zeros(2)
    received = dist.irecv(theirs, 1 - rank)
    sent = dist.isend(mine, 1 - rank)
    received.wait()
    sent.wait()


def makes_a_group_after_its_send(rank, world_size):
    tensor = torch.ones(2)
    work = dist.isend(tensor, 1) if rank == 0 else dist.irecv(tensor, 0)
    if rank == 1:
        work.wait()
    dist.new_group([0, 1])
    if rank == 0:
        work.wait()


def from_any_and_by_name(rank, world_size):
    tensor = torch.zeros(2)
    if rank == 0:
        for number in (1.0, 2.0):
            dist.send(torch.full((2,), number), 1)
    else:
        dist.recv(tensor)
        dist.recv(tensor, 0)


def drops_a_receive(rank, world_size):
    """Rank 1's first receive is withdrawn before anything comes."""
    first, second = torch.zeros(2), torch.zeros(2)
    if rank == 1:
        dist.irecv(first, 0)
    dist.barrier()
    if rank == 0:
        dist.send(torch.ones(2), 1)
    else:
        dist.recv(second, 0)


def both_receive(rank, world_size):
    dist.recv(torch.zeros(2), 1 - rank)


def sparse_sum(rank, world_size):
    dense = torch.zeros(4)
    dense[rank] = 1.0
    sparse = dense.to_sparse()
    dist.all_reduce(sparse)
    return sparse.to_dense()
