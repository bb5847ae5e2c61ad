"""Programs of two ranks (three where said) whose messages go wrong."""

# mypy: ignore-errors

import time

import torch
import torch.distributed as dist


def both_send_first(rank, world_size):
    tensor, peer = torch.ones(4), 1 - rank
    dist.send(tensor, peer)  # stuck
    dist.recv(tensor, peer)


def both_receive_first(rank, world_size):
    tensor, peer = torch.ones(4), 1 - rank
    dist.recv(tensor, peer)  # stuck
    dist.send(tensor, peer)


def all_send_to_the_next(rank, world_size):
    tensor = torch.ones(4)
    dist.isend(tensor, (rank + 1) % world_size).wait()  # stuck
    dist.recv(tensor, (rank - 1) % world_size)


def buffer_too_small(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(8), 1)
    else:
        dist.recv(torch.ones(4), 0)  # aborts


def buffer_too_large(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(8), 1)
    else:
        dist.recv(torch.ones(32), 0)


def buffer_of_another_dtype(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(8), 1)
    else:
        dist.recv(torch.ones(8, dtype=torch.int32), 0)


def dropped_handle(rank, world_size):
    if rank == 0:
        dist.isend(torch.ones(8), 1)  # dropped
        dist.barrier(dist.new_group([0]))
    dist.barrier()
    if rank == 1:
        dist.recv(torch.ones(8), 0)  # never comes


def tags_differ(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(8), 1, tag=1)
    else:
        dist.recv(torch.ones(8), 0, tag=2)


def groups_differ(rank, world_size):
    pair = dist.new_group([0, 1])
    if rank == 0:
        dist.send(torch.ones(8), 1, group=pair)
    else:
        dist.recv(torch.ones(8), 0)


_kept = []


def never_received(rank, world_size):
    if rank == 0:
        _kept.append(dist.isend(torch.ones(8), 1))  # unreceived


def never_sent(rank, world_size):
    if rank == 1:
        dist.recv(torch.ones(8), 0)  # stuck


def changed_before_the_wait(rank, world_size):
    if rank == 0:
        tensor = torch.ones(8)
        work = dist.isend(tensor, 1)  # overwritten
        tensor.add_(1)
        dist.barrier()
        work.wait()
    else:
        dist.barrier()
        time.sleep(0.2)  # so that the wait has begun
        dist.recv(torch.ones(8), 0)


def to_itself(rank, world_size):
    dist.send(torch.ones(3), rank)  # refused


def negative_tag(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(3), 1, tag=-1)  # refused
    else:
        dist.recv(torch.ones(3), 0, tag=-1)


def one_too_many_from_anyone(rank, world_size):
    """Three ranks: two messages, three receives."""
    tensor = torch.ones(3)
    if rank == 0:
        for _ in range(3):
            dist.recv(tensor)  # stuck
    else:
        dist.send(tensor, 0)


def polls_for_ever(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(3), 1)
    else:
        work = dist.irecv(torch.ones(3), 0)
        while not work.is_completed():
            time.sleep(0.001)  # polls


def loops_for_ever(rank, world_size):
    if rank == 1:
        while True:
            time.sleep(0.001)  # loops
    dist.barrier()  # waits


def sends_and_leaves(rank, world_size):
    """Right if sends are buffered: the first rank has ended before its message is received."""
    if rank == 0:
        dist.send(torch.full((3,), 7.0), 1)
        return None
    time.sleep(0.3)
    tensor = torch.empty(3)
    dist.recv(tensor, 0)
    return tensor.tolist()


def tags_in_another_order(rank: int, world_size: int) -> None:
    for tag in (1, 2) if rank == 0 else (2, 1):
        value = torch.full((4,), float(tag))
        if rank == 0:
            dist.send(value, 1, tag=tag)
        else:
            dist.recv(value, 0, tag=tag)
