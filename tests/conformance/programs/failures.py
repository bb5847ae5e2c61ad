"""Ranks that raise, exit or are killed, and what the others come to."""

# mypy: ignore-errors

import os
import signal
import sys
import time

import torch
import torch.distributed as dist

from tests.conformance.rows import attempt, row

ONE = torch.ones(2)
kept = []


@row()
def one_raises(rank, world_size):
    if rank == 1:
        raise KeyError("x")
    dist.recv(ONE, 1)


@row(3)
def one_raises_and_two_wait(rank, world_size):
    if rank == 1:
        raise ValueError("no")
    dist.barrier()


@row()
def all_raise(rank, world_size):
    raise RuntimeError(f"no good on {rank}")


@row()
def one_raises_after_a_post(rank, world_size):
    if rank == 0:
        kept.append(dist.isend(ONE, 1))
        raise RuntimeError("after")
    time.sleep(0.1)
    dist.recv(ONE, 0, tag=9)


@row()
def exits_with_a_status(rank, world_size):
    if rank == 0:
        sys.exit(3)
    dist.barrier()


@row()
def exits_well(rank, world_size):
    if rank == 0:
        sys.exit(0)
    return rank


@row()
def exits_well_too_early(rank, world_size):
    if rank == 0:
        sys.exit(0)
    dist.barrier()


@row()
def leaves_without_a_word(rank, world_size):
    if rank == 0:
        os._exit(3)
    dist.recv(ONE, 0)


@row()
def leaves_with_status_0(rank, world_size):
    if rank == 0:
        os._exit(0)
    return rank


@row(3)
def is_killed(rank, world_size):
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.recv(ONE, 1)


@row(3)
def is_killed_and_a_collective_waits(rank, world_size):
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(ONE.clone())


@row()
def aborts(rank, world_size):
    if rank == 0:
        os.abort()
    dist.recv(ONE, 0)


@row(3)
def the_others_go_on(rank, world_size):
    """Between the two that live, messages still pass; only collectives do not."""
    if rank == 2:
        os._exit(5)
    time.sleep(0.3)
    buffer = torch.zeros(2)
    dist.send(ONE * 3, 1) if rank == 0 else dist.recv(buffer, 0)
    return buffer, attempt(dist.all_reduce, ONE.clone())


@row()
def a_failure_that_is_caught(rank, world_size):
    if rank == 1:
        os._exit(5)
    return attempt(dist.irecv(ONE.clone(), 1).wait)


@row()
def a_post_after_the_death(rank, world_size):
    if rank == 1:
        os._exit(5)
    time.sleep(0.3)
    return attempt(dist.send, ONE, 1), attempt(dist.recv, ONE.clone(), 1)


@row()
def a_message_before_the_death(rank, world_size):
    """What was received before stays received."""
    buffer = torch.zeros(2)
    if rank == 1:
        dist.send(ONE * 7, 0)
        os._exit(5)
    dist.recv(buffer, 1)
    return buffer


@row(3)
def is_killed_in_a_subgroup(rank, world_size):
    group = dist.new_group([0, 1])
    if rank == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    if rank == 0:
        return attempt(dist.all_reduce, ONE.clone(), group=group)
    return None


@row(3)
def one_raises_in_the_midst_of_a_circle(rank, world_size):
    buffer = torch.zeros(2)
    if rank == 2:
        raise RuntimeError("before")
    dist.send(ONE, (rank + 1) % 3)
    dist.recv(buffer, (rank - 1) % 3)


@row()
def a_result_that_cannot_be_pickled(rank, world_size):
    return (_ for _ in ())
