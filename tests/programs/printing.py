"""Programs that print much, for long, or without end."""

# mypy: ignore-errors

import subprocess
import time

import torch
import torch.distributed as dist


def both_wait_while_a_child_says_yes(rank, world_size):
    subprocess.Popen(["yes"])
    dist.recv(torch.ones(1), 1 - rank)


def both_wait_while_a_child_prints_no_end_of_line(rank, world_size):
    subprocess.Popen(["cat", "/dev/zero"])
    dist.recv(torch.ones(1), 1 - rank)


def prints_now_and_then(rank, world_size):
    for number in range(10):
        time.sleep(0.3)
        if rank == 0:
            print(number, flush=True)
    dist.barrier()
