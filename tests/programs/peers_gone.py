"""Ranks whose peers have gone, come too late, or never come to an end."""

# mypy: ignore-errors

import datetime
import os
import signal
import threading
import time

import torch
import torch.distributed as dist

ONE = torch.ones(1)


def everyone_leaves_with_status_0(rank, world_size):
    dist.barrier()
    os._exit(0)


def one_leaves_with_status_0_too_early(rank, world_size):
    if rank == 1:
        os._exit(0)
    dist.barrier()  # alone


def sends_on_after_a_rank_was_killed(rank, world_size):
    dist.barrier()
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    handles = []
    for _ in range(100):
        handles.append(dist.isend(torch.ones(1 << 16), 2))
        time.sleep(0.005)
    for handle in handles:
        handle.wait()


def a_rank_comes_late_to_a_monitored_barrier(rank, world_size):
    if rank == 1:
        time.sleep(1.5)
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.5))  # late


def a_rank_never_comes_to_a_monitored_barrier(rank, world_size):
    if rank == 0:
        dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.5))  # never


def refuses_a_group_of_strangers(rank, world_size):
    dist.new_group([0, 7])  # strangers


def another_thread_sends_in_the_end(rank, world_size):
    if rank == 1:

        def late():
            time.sleep(20)
            dist.send(ONE, 0)

        threading.Thread(target=late).start()
        dist.recv(ONE, 0)  # one
    else:
        dist.recv(ONE, 1)  # other
        dist.send(ONE, 1)


def exchanges_for_ever(rank, world_size):
    while True:
        handle = dist.isend(ONE, 1 - rank)
        dist.recv(torch.zeros(1), 1 - rank)
        handle.wait()


def sends_first_for_ever(rank, world_size):
    while True:
        dist.send(ONE, 1 - rank)
        dist.recv(torch.zeros(1), 1 - rank)
