"""Programs that end in unusual ways."""

# mypy: ignore-errors

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import torch
import torch.distributed as dist


def killed(rank, world_size):
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


def raises(rank, world_size):
    if rank == 1:
        raise KeyError("x")  # raises
    dist.barrier()


def all_raise(rank, world_size):
    raise RuntimeError(f"no good on {rank}")  # raises


def leaves_without_a_word(rank, world_size):
    if rank == 0:
        os._exit(3)
    dist.barrier()


def exits_with_status_3(rank, world_size):
    sys.exit(3)


def exits_with_status_0(rank, world_size):
    sys.exit(0)


def recurses(rank, world_size):
    recurses(rank, world_size)  # deeper


class MuteError(Exception):
    def __str__(self):
        raise ValueError("no text")


def raises_what_cannot_be_printed(rank, world_size):
    raise MuteError


def raises_what_cannot_be_pickled(rank, world_size):
    class LocalError(Exception):
        lock = None

    error = LocalError("local")
    error.lock = threading.Lock()
    raise error


def returns_what_cannot_be_pickled(rank, world_size):
    return threading.Lock()


class Poison:
    def __reduce__(self):
        return _explode, ()


def _explode():
    raise ValueError("poisoned")


def returns_what_cannot_be_unpickled(rank, world_size):
    return Poison()


def sleeps(rank, world_size):
    time.sleep(3600)


def tells_its_id_and_sleeps(rank, world_size):
    print(os.getpid(), flush=True)
    time.sleep(3600)


def slow_rank(rank, world_size):
    if rank == 1:
        time.sleep(2)
    dist.barrier()


def prints_a_partial_line(rank, world_size):
    print(f"whole {rank}")
    print(f"partial {rank}", end="")


def prints_invalid_utf8(rank, world_size):
    sys.stdout.flush()
    os.write(1, b"caf\xe9\n")


def prints_a_megabyte(rank, world_size):
    for number in range(16_384):
        print(f"{rank} {number:060d}")


def prints_to_both(rank, world_size):
    print(f"out {rank}", flush=True)
    print(f"err {rank}", file=sys.stderr)
    os.write(2, f"raw {rank}\n".encode())


def starts_a_child(rank, world_size):
    return subprocess.Popen(["sleep", "3600"]).pid


def starts_a_child_and_dies(rank, world_size):
    print(subprocess.Popen(["sleep", "3600"]).pid, flush=True)
    os._exit(7)


def forks_and_both_return(rank, world_size):
    pid = os.fork()
    if pid == 0:
        return "the child"
    return pid


def forked_child_communicates(rank, world_size):
    """The child's calls are no part of the rank's history."""
    if os.fork() == 0:
        dist.distributed_c10d._get_default_group().size()
        for _ in range(3):
            work = dist.isend(torch.ones(1), 1 - rank)
        os._exit(0)
    os.wait()
    dist.barrier()


def leaves_a_thread_that_communicates(rank, world_size):
    """A thread outlives the program and receives what never comes."""

    def go_on():
        time.sleep(0.3)
        dist.barrier()

    threading.Thread(target=go_on, daemon=True).start()


def catches_the_failure_of_its_peer(rank, world_size):
    if rank == 1:
        os._exit(5)
    try:
        dist.irecv(torch.ones(4), 1).wait()
    except RuntimeError:
        pass
    return "caught"


def steps_for_ever(rank, world_size):
    """Prints its process id, then a line for every step."""
    print(os.getpid())
    while True:
        dist.barrier()
        print("step")


def tells_its_id_and_raises(rank, world_size):
    print(os.getpid())
    raise RuntimeError("told")


def state_of_the_process(rank, world_size):
    import random

    import numpy

    return {
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
        "path": list(sys.path),
        "arguments": list(sys.argv),
        "draws": (random.random(), float(numpy.random.rand()), float(torch.rand(()))),
        "dtype": str(torch.get_default_dtype()),
        "grad": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
        "device": str(torch.get_default_device()),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "filters": len(warnings.filters),
        "handlers": [str(signal.getsignal(n)) for n in (signal.SIGUSR1, signal.SIGTERM)],
        "timer": signal.getitimer(signal.ITIMER_REAL)[0],
        "pid": os.getpid(),
    }


def soils_the_process(rank, world_size):
    import random

    os.environ["SOILED"] = "yes"
    os.environ.pop("HOME", None)
    os.chdir("/")
    sys.path.insert(0, "/nowhere")
    sys.argv[:] = ["soiled"]
    random.seed(99)
    torch.manual_seed(99)
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.set_num_threads(2)
    torch.set_default_device("meta")
    torch.use_deterministic_algorithms(True)
    warnings.simplefilter("error")
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.alarm(3600)
    sys.stdout = Path(os.devnull).open("w")
    return os.getpid()
