"""Programs that never come to an end, and who waits there for whom."""

# mypy: ignore-errors

import datetime
import time

import torch
import torch.distributed as dist

from tests.conformance.rows import row

ONE = torch.ones(2)


@row()
def both_send_first(rank, world_size):
    dist.send(ONE, 1 - rank)
    dist.recv(ONE, 1 - rank)


@row()
def both_send_without_waiting_and_wait_first(rank, world_size):
    work = dist.isend(ONE, 1 - rank)
    work.wait()
    dist.recv(ONE, 1 - rank)


@row()
def both_receive_first(rank, world_size):
    dist.recv(ONE, 1 - rank)
    dist.send(ONE, 1 - rank)


@row(4)
def a_circle_of_sends(rank, world_size):
    dist.send(ONE, (rank + 1) % world_size)
    dist.recv(ONE, (rank - 1) % world_size)


@row(3)
def two_of_three_in_a_circle(rank, world_size):
    dist.recv(ONE, (1, 0, 1)[rank])


@row()
def tags_differ(rank, world_size):
    dist.send(ONE, 1, tag=1) if rank == 0 else dist.recv(ONE, 0, tag=2)


@row()
def groups_differ(rank, world_size):
    pair = dist.new_group([0, 1])
    dist.send(ONE, 1, group=pair) if rank == 0 else dist.recv(ONE, 0)


@row()
def never_sent(rank, world_size):
    if rank == 1:
        dist.recv(ONE, 0)


@row()
def never_received(rank, world_size):
    if rank == 1:
        dist.send(ONE, 0)


@row(3)
def one_too_many_from_anyone(rank, world_size):
    if rank:
        dist.send(ONE, 0)
    else:
        for _ in range(3):
            dist.recv(ONE)


@row()
def a_dropped_send(rank, world_size):
    if rank == 0:
        dist.isend(ONE, 1)
    dist.barrier()
    if rank == 1:
        dist.recv(ONE, 0)


@row()
def a_barrier_left_out(rank, world_size):
    for step in range(3):
        if rank or step != 1:
            dist.barrier()


@row(3)
def a_barrier_for_two_of_three(rank, world_size):
    if rank:
        dist.barrier()


@row()
def a_barrier_against_a_receive(rank, world_size):
    dist.barrier() if rank == 0 else dist.recv(ONE, 0)


@row()
def roots_of_a_broadcast_differ(rank, world_size):
    dist.broadcast(ONE, rank)


@row(3)
def roots_of_a_reduce_differ(rank, world_size):
    dist.reduce(ONE, 0 if rank == 0 else 1)


@row()
def all_reduce_against_broadcast(rank, world_size):
    dist.all_reduce(ONE) if rank == 0 else dist.broadcast(ONE, 0)


@row()
def all_reduce_against_barrier(rank, world_size):
    dist.all_reduce(ONE) if rank == 0 else dist.barrier()


@row(3)
def a_group_made_on_one_rank(rank, world_size):
    if rank == 0:
        dist.new_group([0, 1])


@row(3)
def collectives_of_two_groups_crossed(rank, world_size):
    one, two = dist.new_group([0, 1]), dist.new_group([0, 1])
    if rank == 0:
        dist.all_reduce(ONE, group=one)
        dist.all_reduce(ONE, group=two)
    if rank == 1:
        dist.all_reduce(ONE, group=two)
        dist.all_reduce(ONE, group=one)


@row(3)
def a_rooted_collective_without_its_root(rank, world_size):
    if rank:
        dist.broadcast(ONE, 0)


@row(4)
def a_broadcast_without_a_leaf(rank, world_size):
    if rank != 3:
        dist.broadcast(ONE, 0)
    return rank


@row(4)
def a_reduce_without_one(rank, world_size):
    if rank != 2:
        dist.reduce(ONE, 0)
    return rank


@row(3)
def a_gather_without_one(rank, world_size):
    if rank != 2:
        dist.gather(ONE, [ONE.clone() for _ in range(3)] if rank == 0 else None, 0)
    return rank


@row(3)
def a_scatter_without_one(rank, world_size):
    if rank != 1:
        dist.scatter(ONE, [ONE.clone() for _ in range(3)] if rank == 0 else None, 0)
    return rank


@row()
def a_wait_for_an_async_collective(rank, world_size):
    if rank == 0:
        work = dist.all_reduce(ONE, async_op=True)
        work.wait()


@row()
def an_object_that_nobody_sends(rank, world_size):
    if rank:
        dist.recv_object_list([None], 0)


@row(timeout=2)
def polls_for_ever(rank, world_size):
    if rank == 0:
        dist.send(ONE, 1)
    else:
        work = dist.irecv(ONE, 0)
        while not work.is_completed():
            time.sleep(0.001)


@row()
def a_batch_without_its_counterpart(rank, world_size):
    ops = [dist.P2POp(dist.isend, ONE, 1 - rank), dist.P2POp(dist.irecv, ONE, 1 - rank, tag=rank)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()


@row()
def initialises_again_on_one_rank(rank, world_size):
    dist.destroy_process_group()
    if rank == 0:
        dist.init_process_group("gloo", init_method="env://")


@row(timeout=3)
def a_key_that_nobody_sets(rank, world_size):
    if rank == 1:
        store = dist.distributed_c10d._get_default_store()
        store.set_timeout(datetime.timedelta(days=1))
        store.get("never")
