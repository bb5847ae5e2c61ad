"""Subgroups, groups made and destroyed, timeouts of their own, and the key-value store."""

# mypy: ignore-errors

import datetime
import time

import torch
import torch.distributed as dist

from tests.conformance.rows import attempt, row

ONE = torch.ones(2)
SOON = datetime.timedelta(milliseconds=300)


@row(4)
def overlapping(rank, world_size):
    one, two = dist.new_group([0, 2]), dist.new_group([3, 1, 2])
    tensor = torch.full((2,), rank + 1.0)
    if rank in (0, 2):
        dist.all_reduce(tensor, group=one)
    if rank in (1, 2, 3):
        dist.all_reduce(tensor, group=two)
        dist.broadcast(tensor, 3, group=two)
    ranks = dist.get_process_group_ranks(two) if rank else None
    return tensor, ranks, dist.get_rank(one), dist.get_rank(two)


@row(3)
def ranks_of_the_group(rank, world_size):
    group = dist.new_group([2, 1])
    if rank == 0:
        return dist.get_rank(group), dist.get_world_size(group)
    tensor = torch.full((2,), float(rank))
    dist.broadcast(tensor, group=group, group_src=1)
    own = dist.get_group_rank(group, rank), dist.get_global_rank(group, 0)
    return tensor, own, dist.get_rank(group), dist.get_world_size(group)


@row(3)
def made_by_its_members_only(rank, world_size):
    tensor = torch.full((2,), rank + 1.0)
    if rank < 2:
        group = dist.new_group([0, 1], use_local_synchronization=True)
        dist.all_reduce(tensor, group=group)
    return tensor


@row(3)
def made_by_two_of_three(rank, world_size):
    tensor = torch.full((2,), rank + 1.0)
    if rank < 2:
        dist.all_reduce(tensor, group=dist.new_group([0, 1]))
    return tensor


@row(4)
def subgroups(rank, world_size):
    mine, groups = dist.new_subgroups(2)
    tensor = torch.full((2,), rank + 1.0)
    dist.all_reduce(tensor, group=mine)
    return tensor, len(groups)


@row()
def initialised_again(rank, world_size):
    out = []
    for step in range(3):
        tensor = torch.full((2,), rank + step + 1.0)
        dist.all_reduce(tensor)
        out.append(tensor)
        dist.destroy_process_group()
        dist.init_process_group("gloo", init_method="env://")
    dist.barrier()
    return out


@row()
def destroyed_and_over(rank, world_size):
    dist.barrier()
    dist.destroy_process_group()
    return dist.is_initialized()


@row()
def one_group_destroyed(rank, world_size):
    group = dist.new_group([0, 1])
    dist.all_reduce(ONE.clone(), group=group)
    dist.destroy_process_group(group)
    dist.barrier()


kept = []


@row()
def destroyed_while_pending(rank, world_size):
    if rank == 0:
        kept.append(dist.isend(ONE, 1))
        dist.destroy_process_group()


@row()
def messages_of_two_groups(rank, world_size):
    """The same pair and tag in two groups: two channels."""
    group, first, second = dist.new_group([0, 1]), torch.zeros(2), torch.zeros(2)
    if rank == 0:
        one = dist.isend(ONE, 1)
        dist.send(ONE * 2, 1, group=group)
        one.wait()
    else:
        dist.recv(second, 0, group=group)
        dist.recv(first, 0)
    return first, second


@row(timeout=3)
def waited_for_twice(rank, world_size):
    """A second wait for a message never ends: gloo waits for another one."""
    group, first, second = dist.new_group([0, 1]), torch.zeros(2), torch.zeros(2)
    if rank == 0:
        one = dist.isend(ONE, 1)
        two = dist.isend(ONE * 2, 1, group=group)
    else:
        two = dist.irecv(second, 0, group=group)
        two.wait()
        one = dist.irecv(first, 0)
    one.wait()
    two.wait()
    return first, second


@row()
def a_wait_that_gives_up(rank, world_size):
    """After it nothing works in the group any more, on either side."""
    out = []
    if rank == 0:
        out.append(attempt(dist.irecv(ONE.clone(), 1).wait, SOON))
        out.append(attempt(dist.send, ONE, 1))
        out.append(attempt(dist.all_reduce, ONE.clone()))
    else:
        time.sleep(0.8)
        out.append(attempt(dist.recv, ONE.clone(), 0, tag=3))
        out.append(attempt(dist.barrier))
    return out


@row()
def a_wait_for_a_collective_that_gives_up(rank, world_size):
    """It is the wait that has ended, not the collective."""
    tensor = torch.ones(2)
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        first = attempt(work.wait, SOON)
        return first, work.wait(), tensor
    time.sleep(0.8)
    dist.all_reduce(tensor)
    return tensor


@row()
def a_group_that_times_out(rank, world_size):
    group, tensor = dist.new_group([0, 1], timeout=SOON), torch.ones(1)
    out = []
    if rank == 0:
        out.append(attempt(dist.recv, torch.zeros(1), 1, group=group))
        out.append(attempt(dist.recv, torch.zeros(1), 1, group=group))
        dist.send(tensor, 1)
    else:
        dist.recv(torch.zeros(1), 0)
        out.append(attempt(dist.send, tensor, 0, group=group))
    dist.barrier()
    return out


@row()
def a_collective_of_a_group_that_times_out(rank, world_size):
    group = dist.new_group([0, 1], timeout=SOON)
    out = []
    if rank == 0:
        out.append(attempt(dist.all_reduce, torch.ones(1), group=group))
        out.append(attempt(dist.all_reduce, torch.ones(1), group=group))
        dist.send(torch.ones(1), 1)
    else:
        dist.recv(torch.zeros(1), 0)
        out.append(attempt(dist.all_reduce, torch.ones(1), group=group))
    dist.barrier()
    return out


@row(3)
def a_monitored_barrier_without_one(rank, world_size):
    if rank != 1:
        dist.monitored_barrier(timeout=SOON)


@row(4)
def a_monitored_barrier_without_two(rank, world_size):
    if rank in (1, 3):
        time.sleep(1)
        return None
    try:
        dist.monitored_barrier(timeout=SOON, wait_all_ranks=True)
    except RuntimeError as error:
        return [word for word in str(error).replace(",", " ").split() if word.isdigit()][:3]


@row(3)
def a_monitored_barrier_that_one_comes_late_to(rank, world_size):
    if rank == 1:
        time.sleep(1)
    dist.monitored_barrier(timeout=SOON)


@row(2, timeout=3)
def a_monitored_barrier_without_the_first(rank, world_size):
    if rank == 1:
        dist.monitored_barrier(timeout=SOON)


@row()
def through_the_store(rank, world_size):
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        time.sleep(0.05)
        store.set("key", "value")
        store.add("count", 5)
    value = store.get("key")
    total = store.add("count", 1)
    dist.barrier()
    final = store.add("count", 0)
    deleted = store.delete_key("key") if rank == 0 else None
    dist.barrier()
    swapped = store.compare_set("other", "", f"by {rank}") if rank == 0 else None
    return value, final, deleted, store.check(["key"]), store.check(["count"]), swapped, total > 0


@row()
def a_key_that_comes_too_late(rank, world_size):
    store = dist.distributed_c10d._get_default_store()
    said = attempt(store.wait, ["late"], SOON) if rank == 0 else None
    dist.barrier()
    return said
