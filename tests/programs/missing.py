"""One rank stays away from a collective: which of the others leave it all the same?"""

# mypy: ignore-errors

import threading
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist

ROOTED = ("broadcast", "reduce", "gather", "scatter")
OF_ALL = (
    "all_reduce",
    "all_gather",
    "all_gather_into_tensor",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "all_to_all_single",
    "all_to_all",
    "barrier",
)


def scenarios(world_size: int) -> Iterator[tuple[str, int, int, int]]:
    """Every (kind, root, missing rank, elements); none missing: a rank that does not exist."""
    for kind in ROOTED:
        for root in sorted({0, world_size // 2}):
            for missing in range(world_size + 1):
                for numel in (1, 50_000) if kind == "reduce" else (1,):
                    yield kind, root, missing, numel
    for kind in OF_ALL:
        for missing in (0, world_size - 1, world_size):
            yield kind, 0, missing, 1


def measure(rank, world_size):
    """Return the scenarios that this rank came out of; each has a group and a thread of its own."""
    all_ = list(scenarios(world_size))
    groups = [dist.new_group() for _ in all_]
    came_out = set()

    def enter(scenario, group):
        kind, root, _, numel = scenario
        call(kind, root, numel, group, rank, world_size)
        came_out.add(scenario)

    whole = []
    for scenario, group in zip(all_, groups, strict=True):
        if rank != scenario[2]:
            thread = threading.Thread(target=enter, args=(scenario, group), daemon=True)
            thread.start()
            if scenario[2] == world_size:
                whole.append(thread)
    for thread in whole:
        thread.join()  # these end: so much for the time that a collective takes here
    time.sleep(0.3)
    dist.barrier()
    return set(came_out)


def call(kind, root, numel, group, rank, world_size):
    tensor = torch.ones(numel)
    many = [torch.ones(numel) for _ in range(world_size)]
    long = torch.ones(numel * world_size)
    at_root = many if rank == root else None
    match kind:
        case "broadcast":
            dist.broadcast(tensor, root, group=group)
        case "reduce":
            dist.reduce(tensor, root, group=group)
        case "gather":
            dist.gather(tensor, at_root, root, group=group)
        case "scatter":
            dist.scatter(tensor, at_root, root, group=group)
        case "all_reduce":
            dist.all_reduce(tensor, group=group)
        case "all_gather":
            dist.all_gather(many, tensor, group=group)
        case "all_gather_into_tensor":
            dist.all_gather_into_tensor(long, tensor, group=group)
        case "reduce_scatter":
            dist.reduce_scatter(tensor, many, group=group)
        case "reduce_scatter_tensor":
            dist.reduce_scatter_tensor(tensor, long, group=group)
        case "all_to_all_single":
            dist.all_to_all_single(long, long.clone(), group=group)
        case "all_to_all":
            dist.all_to_all([t.clone() for t in many], many, group=group)
        case "barrier":
            dist.barrier(group=group)
