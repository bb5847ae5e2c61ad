"""Programs that would notice, or change, what the ranks of one process share."""

# mypy: ignore-errors

import atexit
import gc
import io
import logging
import os
import random
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy
import torch
import torch.distributed as dist

counter = 0


def counts_by_a_global(rank, world_size):
    global counter
    for _ in range(rank + 1):
        counter += 1
        dist.barrier(dist.new_group([rank], use_local_synchronization=True))
    dist.barrier()
    return counter


def draws(rank, world_size):
    """Draws in turns; every rank has the same seed."""
    drawn = []
    for _ in range(3):
        drawn += [float(torch.rand(())), random.random(), float(numpy.random.rand())]
        drawn += [random.gauss(0, 1), float(torch.randn(())), float(numpy.random.standard_normal())]
        dist.barrier()
    if rank == 1:
        random.seed(5), torch.manual_seed(5), numpy.random.seed(5)
    dist.barrier()
    return [*drawn, float(torch.rand(())), random.random(), float(numpy.random.rand())]


def has_a_share_of_everything(rank, world_size):
    """Each rank changes what is its own; the others must not see it."""
    logging.basicConfig(level=logging.INFO + rank, format=f"{rank} %(message)s", force=True)
    os.environ["MINE"] = str(rank)
    sys.argv.append(f"--rank={rank}")
    sys.path.insert(0, f"/of/{rank}")
    torch.set_default_dtype(torch.float64 if rank else torch.float32)
    logging.getLogger("mine").addHandler(logging.NullHandler())
    warnings.simplefilter("ignore")
    warnings.filterwarnings("error", message=f"for {rank}")
    dist.barrier()
    raised = []
    for other in range(world_size):
        try:
            warnings.warn(f"for {other}", stacklevel=1)
        except UserWarning:
            raised.append(other)
    return {
        "environment": (os.environ["MINE"], os.environ["RANK"], os.getenv("LOCAL_RANK")),
        "arguments": sys.argv[-1],
        "path": sys.path[0],
        "dtype": str(torch.ones(1).dtype),
        "level": logging.root.level - logging.INFO,
        "format": logging.root.handlers[0].formatter._fmt,
        "warnings": raised,
    }


def soils_everything(rank, world_size):
    """Leaves changed whatever it can."""
    os.environ["SOILED"] = "yes"
    os.environ.pop("HOME", None)
    os.environ["PATH"] = "/soiled"
    os.chdir("/")
    os.umask(0o777)
    sys.path.insert(0, "/nowhere")
    sys.argv[:] = ["soiled"]
    sys.setrecursionlimit(5000)
    sys.setswitchinterval(0.01)
    sys.excepthook = sys.displayhook
    random.seed(99), torch.manual_seed(99), numpy.random.seed(99)
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.set_num_threads(2)
    torch.set_default_device("meta")
    torch.use_deterministic_algorithms(True)
    warnings.simplefilter("error")
    warnings.showwarning = print
    logging.basicConfig(level=logging.DEBUG, force=True)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    gc.set_threshold(123)
    gc.enable()
    threading.excepthook = print
    dist.all_reduce = print
    dist.distributed_c10d.send = print
    sys.stdout = sys.stderr = io.StringIO()
    return


def soils_and_raises(rank, world_size):
    soils_everything(rank, world_size)
    raise RuntimeError("soiled")


def soils_and_hangs(rank, world_size):
    soils_everything(rank, world_size)
    while True:
        pass


def soils_and_deadlocks(rank, world_size):
    peer, buffer = 1 - rank, torch.empty(1, device="cpu")
    soils_everything(rank, world_size)
    dist.recv(buffer, peer)


def keeps_a_handle(rank, world_size):
    """Leaves its groups, handles and hooks for the collector."""
    cycle = []
    cycle.append((cycle, dist.new_group([0, 1]), dist.isend(torch.ones(1), 1 - rank)))
    dist.recv(torch.ones(1), 1 - rank)
    cycle[0][2].wait()


def registers_an_end(rank, world_size):
    atexit.register(print, "the end of", rank)
    atexit.register(dist.destroy_process_group)
    atexit.register(len, "never")
    atexit.unregister(len)


def signals_itself(rank, world_size):
    taken = []
    signal.signal(signal.SIGUSR1, lambda number, frame: taken.append(number))
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.kill(os.getpid(), signal.SIGTERM)
    return taken, signal.getsignal(signal.SIGTERM) == signal.SIG_IGN


def terminates_itself(rank, world_size):
    if rank:
        os.kill(os.getpid(), signal.SIGTERM)
    dist.barrier()


# ends that are hard to bring about


def spins(rank, world_size):
    while True:  # spins
        pass


def sleeps_in_a_loop(rank, world_size):
    while True:
        time.sleep(0.01)  # sleeps


def swallows_everything(rank, world_size):
    while True:
        try:
            time.sleep(0.01)
        except BaseException:
            pass


def swallows_everything_and_spins(rank, world_size):
    def within():
        while True:
            try:
                while True:
                    sum(range(10))
            except BaseException:
                pass

    while True:
        try:
            within()
        except BaseException as error:
            print(error)


def spins_once_it_is_told(rank, world_size):
    try:
        dist.recv(torch.ones(1), 1 - rank)  # stuck
    except BaseException:
        while True:
            pass


def receives_whatever_happens(rank, world_size):
    while True:
        try:
            dist.recv(torch.ones(1), 1 - rank)
        except BaseException:
            pass


def communicates_at_its_end(rank, world_size):
    try:
        dist.recv(torch.ones(1), 1 - rank)  # stuck
    finally:
        dist.send(torch.ones(1), 1 - rank)


class EndlessError(Exception):
    def __str__(self):
        while True:
            pass


def raises_what_takes_for_ever_to_print(rank, world_size):
    raise EndlessError


# time


def sleeps_a_thousand_seconds(rank, world_size):
    began = time.clock_gettime(time.CLOCK_MONOTONIC)
    for _ in range(100):
        time.sleep(10)
        dist.barrier()
    return time.clock_gettime(time.CLOCK_MONOTONIC) - began < 500


def one_sleeps_while_the_other_waits(rank, world_size):
    if rank == 0:
        time.sleep(30)
        dist.send(torch.ones(1), 1)
    else:
        dist.recv(torch.ones(1), 0)


def sleeps_for_long(rank, world_size):
    time.sleep(1000)  # too long


# the order of the ranks


def breaks_in_one_order(rank, world_size):
    """Four ranks; wrong only when the last rank's message comes first, and the second's next."""
    if rank:
        dist.send(torch.tensor([float(rank)]), 0)
        return
    got = torch.zeros(1)
    order = [dist.recv(got) for _ in range(world_size - 1)]
    if order == [3, 2, 1]:
        raise RuntimeError("the order that nobody thought of")  # raises


def answers_whoever_comes_first(rank, world_size):
    """Right in any order, though its operations differ."""
    if rank:
        dist.send(torch.ones(1), 0)
        dist.recv(torch.ones(1), 0)
        return
    for _ in range(world_size - 1):
        dist.send(torch.ones(1), dist.recv(torch.ones(1)))


def sums_in_the_order_of_arrival(rank, world_size):
    """What it comes to depends on which message comes first."""
    if rank:
        dist.send(torch.full((1,), float(rank)), 0)
        return None
    total, got = torch.zeros(1), torch.zeros(1)
    for _ in range(world_size - 1):
        dist.recv(got)
        total = total * 2 + got
    return float(total)


def polls_and_returns_what_it_likes(rank, world_size):
    """Its result is no matter of the order: the same numbers, and the time."""
    began, tensor = time.perf_counter(), torch.ones(2)
    work = dist.all_reduce(tensor, async_op=True)
    while not work.is_completed():
        pass
    work.wait()
    return {"sum": tensor, "took": time.perf_counter() - began}


def polls_and_returns_numbers(rank, world_size):
    return polls_and_returns_what_it_likes(rank, world_size)["sum"]


def depends_on_a_poll(rank, world_size):
    if rank:
        dist.barrier()
        return
    work = dist.barrier(async_op=True)
    polls = 0
    while not work.is_completed():
        polls += 1
        dist.barrier(dist.new_group([0], use_local_synchronization=True))
    work.wait()


_runs = []


def counts_its_runs(rank, world_size):
    """As many collectives as the process has run it: state that is kept."""
    path = Path(os.environ["COUNT_FILE"])
    if rank == 0:
        with path.open("a") as file:
            file.write(".")
    dist.barrier()
    for _ in range(path.stat().st_size):
        dist.barrier()


def tells_the_time(rank, world_size):
    """What may differ from run to run, and is nobody's concern."""
    print(time.time(), os.getpid(), id(object()), {"a", "b", "c"})
    dist.barrier()
    random.seed()
    return {str(random.random()) for _ in range(3)}


def sends_in_the_order_of_a_set(rank, world_size):
    names = {"alpha", "beta", "gamma", "delta"}
    for place, name in enumerate(names):
        tensor = torch.ones(len(name))
        if rank:
            dist.recv(tensor, 0, tag=place)
        else:
            dist.send(tensor, 1, tag=place)
    return [len(name) for name in names]
