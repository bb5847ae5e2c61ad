"""What a rank has because it is a process: an id, a folder, a clock, and what others wait for."""

# mypy: ignore-errors

import fcntl
import multiprocessing
import os
import signal
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from time import monotonic, sleep

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.conformance.rows import attempt, row


def folder(rank):
    """Return a new folder that all ranks know."""
    held = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(held, 0)
    return Path(held[0])


def moved(rank):
    """Go to a folder of this rank's own; return the one that holds it, the one before, and it."""
    place, before = folder(rank), Path.cwd()
    mine = place / str(rank)
    mine.mkdir()
    os.chdir(mine)
    return place, before, mine


def removed(rank, place):
    dist.barrier()
    if rank == 0:
        for file in place.rglob("*"):
            if file.is_file():
                file.unlink()
        for inner in [*place.iterdir(), place]:
            inner.rmdir()


@row(2)
def an_id_of_its_own(rank, world_size):
    every = [None] * world_size
    dist.all_gather_object(every, os.getpid())
    return len(set(every)), Path(f"/proc/{os.getpid()}/stat").exists()


@row(2)
def a_folder_of_its_own(rank, world_size):
    place, before, _ = moved(rank)
    Path("name").write_text(f"rank {rank}")
    dist.barrier()
    found = Path("name").read_text(), Path.cwd().name
    os.chdir(before)
    dist.barrier()
    same = Path.cwd() == before
    removed(rank, place)
    return found, same


@row(2)
def a_clock_that_goes_on_in_a_sleep(rank, world_size):
    starts = time.time(), monotonic(), time.perf_counter_ns()
    sleep(0.2)
    return (
        time.time() - starts[0] > 0.19,
        monotonic() - starts[1] > 0.19,
        (time.perf_counter_ns() - starts[2] > 190_000_000),
    )


class Timer:
    now = time.perf_counter


@row(2)
def a_clock_that_is_a_class_s_attribute(rank, world_size):
    return Timer().now() > 0, type(Timer().now())


@row(2)
def a_folder_that_is_gone(rank, world_size):
    """One rank stands in it; the other still has its own."""
    place, before, mine = moved(rank)
    if rank == 0:
        mine.rmdir()
    dist.barrier()
    if rank == 1:
        Path("name").write_text("still here")
    dist.barrier()
    os.chdir(before)
    found = Path.cwd() == before
    removed(rank, place)
    return found


@row(2)
def a_poll_beside_a_wait_that_may_give_up(rank, world_size):
    """It is nobody's time that a poll takes."""
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        store.wait(["word"], timedelta(seconds=30))
        return store.get("word")
    for _ in range(3):
        store.check(["nobody sets this"])
        store.add("nor counts this", 0)
    store.set("word", "said")
    return None


@row(2, loose=True)
def one_kills_the_other(rank, world_size):
    every = [None] * world_size
    dist.all_gather_object(every, os.getpid())
    if rank == 1:
        time.sleep(120)
        return
    os.kill(every[1], 0)
    os.kill(every[1], signal.SIGKILL)
    dist.recv(torch.zeros(1), 1)


@row(3)
def a_lock_on_a_file(rank, world_size):
    """The first one makes what all need, the others find it there."""
    place, made = folder(rank), 0
    with (place / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not (place / "cache").exists():
            time.sleep(0.1)
            (place / "cache").write_text("made")
            made = 1
        fcntl.flock(file, fcntl.LOCK_UN)
    total = torch.tensor(float(made))
    dist.all_reduce(total)
    removed(rank, place)
    return total


@row(2)
def a_poll_of_the_store(rank, world_size):
    store = dist.distributed_c10d._get_default_store()
    store.add("come", 1)
    while store.add("come", 0) < world_size:
        pass
    if rank == 0:
        store.set("word", "said")
    while not store.check(["word"]):
        pass
    return store.get("word")


@row(2)
def a_way_to_start_processes(rank, world_size):
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("spawn", force=before is not None)
    dist.barrier()
    again = attempt(multiprocessing.set_start_method, "fork")
    found = multiprocessing.get_start_method(), again
    multiprocessing.set_start_method(before, force=True)
    return found


@row(2)
def futures_that_others_complete(rank, world_size):
    def summed():
        return dist.all_reduce(torch.full((2,), rank + 1.0), async_op=True).get_future()

    every = [future.value()[0] for future in torch.futures.collect_all([summed(), summed()]).wait()]
    values = torch.futures.wait_all([summed().then(lambda f: f.value()[0] / 2) for _ in range(2)])
    own = torch.futures.Future()
    summed().add_done_callback(lambda future: own.set_result(future.value()[0] * 10))
    return every, values, own.wait()


@row(2)
def a_hook_of_ddp(rank, world_size):
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Linear(4, 2))

    def halved(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return future.then(lambda f: f.value()[0] / world_size)

    model.register_comm_hook(None, halved)
    model(torch.full((3, 4), rank + 1.0)).sum().backward()
    return [parameter.grad for parameter in model.parameters()]
