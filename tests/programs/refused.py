"""Programs of two ranks that cannot be simulated, or that take their process down."""

# mypy: ignore-errors

import ctypes
import multiprocessing
import os
import re
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist


def starts_a_thread(rank, world_size):
    threading.Thread(target=print).start()  # refused


def starts_a_pool(rank, world_size):
    with ThreadPoolExecutor() as pool:
        pool.submit(print)  # refused


def starts_a_timer(rank, world_size):
    threading.Timer(1, print).start()  # refused


def forks(rank, world_size):
    os.fork()


def starts_a_process(rank, world_size):
    multiprocessing.get_context("fork").Process(target=print).start()


def spawns_a_process(rank, world_size):
    torch.multiprocessing.spawn(print, nprocs=2)


def registers_operators(rank, world_size):
    torch.library.Library("refused_of_tests", "DEF")


def defines_an_operator(rank, world_size):
    torch.library.define("refused_of_tests::twice", "(Tensor x) -> Tensor")


def sets_an_alarm(rank, world_size):
    signal.alarm(60)


def catches_the_refusal(rank, world_size):
    try:
        os.fork()
    except BaseException:
        pass
    while True:
        try:
            dist.barrier()
        except BaseException:
            pass


def runs_the_harness(rank, world_size):
    import harness

    harness.run(f"{__file__}:is_right", 2, confirm=False)


def runs_the_harness_on_real_ranks(rank, world_size):
    import harness

    harness.run(f"{__file__}:is_right", 2, backend="gloo")


def is_right(rank, world_size):
    dist.barrier()


def uses_a_gpu(rank, world_size):
    """What a GPU's tensor does where there is none, torch says itself."""
    torch.ones(1, device="cuda")


def sends_from_a_gpu(rank, world_size):
    """What torch says of a tensor on a device that the group has no backend for."""
    raise RuntimeError("No backend type associated with device type cuda")


def turns_off_an_alarm(rank, world_size):
    signal.alarm(0)
    dist.barrier()


# that end their process


def leaves_from_c(rank, world_size):
    if rank == 1:
        ctypes.CDLL(None)._exit(5)
    dist.barrier()


def faults(rank, world_size):
    if rank == 1:
        ctypes.string_at(0)
    dist.barrier()


def aborts_from_c(rank, world_size):
    if rank == 1:
        ctypes.CDLL(None).abort()
    dist.barrier()


def kills_from_c(rank, world_size):
    if rank == 1:
        ctypes.CDLL(None).kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


def is_long_in_c(rank, world_size):
    if rank == 1:
        re.match(r"(a+)+$", "a" * 64 + "b")
    dist.barrier()


def starts_a_child_that_prints(rank, world_size):
    subprocess.run(["sh", "-c", "echo rank $RANK of $WORLD_SIZE"], check=True)


def asks_a_child(rank, world_size):
    told = subprocess.run(["sh", "-c", "echo $RANK"], check=True, capture_output=True, text=True)
    return int(told.stdout)


def leaves_a_child(rank, world_size):
    print(subprocess.Popen(["sleep", "3600"]).pid, flush=True)
