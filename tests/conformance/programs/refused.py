"""Calls that are refused, or that abort the process.

Not here: a message to a rank that does not exist, which gloo waits to connect to until its store
gives up, and the simulator refuses at once; and meta tensors, of which gloo sends nothing.
``loose``: whether the other rank had its data before one was aborted is left to chance.
"""

# mypy: ignore-errors

import torch
import torch.distributed as dist

from tests.conformance.rows import row

ONE = torch.ones(2)


@row()
def to_itself(rank, world_size):
    dist.send(ONE, rank)


@row()
def from_itself(rank, world_size):
    dist.irecv(ONE, rank)


@row()
def a_negative_tag(rank, world_size):
    dist.send(ONE, 1 - rank, tag=-1)


@row()
def a_receive_with_a_negative_tag(rank, world_size):
    dist.irecv(ONE, 1 - rank, tag=-2)


@row()
def no_tensor(rank, world_size):
    dist.send([1.0], 1 - rank)


@row()
def a_float_size(rank, world_size):
    dist.recv(torch.zeros(4 / 2), 1 - rank)


@row()
def not_contiguous(rank, world_size):
    dist.send(torch.ones(3, 2).t(), 1 - rank)


@row()
def received_into_what_is_not_contiguous(rank, world_size):
    dist.recv(torch.ones(3, 2).t(), 1 - rank)


@row()
def an_all_reduce_of_what_is_not_contiguous(rank, world_size):
    tensor = torch.arange(6.0).reshape(3, 2).t()
    dist.all_reduce(tensor)
    return tensor


@row()
def a_broadcast_of_what_is_not_contiguous(rank, world_size):
    tensor = torch.arange(6.0).reshape(3, 2).t() * (rank + 1)
    dist.broadcast(tensor, 0)
    return tensor


@row()
def an_all_gather_of_what_is_not_contiguous(rank, world_size):
    out = [torch.zeros(2, 3) for _ in range(world_size)]
    dist.all_gather(out, torch.arange(6.0).reshape(3, 2).t() + rank)
    return out


@row()
def an_all_gather_into_what_is_not_contiguous(rank, world_size):
    out = [torch.zeros(3, 2).t() for _ in range(world_size)]
    dist.all_gather(out, torch.arange(6.0).reshape(2, 3) + rank)
    return out


@row()
def an_all_gather_into_too_few(rank, world_size):
    dist.all_gather([torch.zeros(2)], ONE)


@row()
def an_all_gather_into_too_many(rank, world_size):
    dist.all_gather([torch.zeros(2) for _ in range(3)], ONE)


@row()
def an_all_gather_of_two_types(rank, world_size):
    dist.all_gather([torch.zeros(2, dtype=torch.float64) for _ in range(2)], ONE)


@row()
def an_all_gather_of_another_size(rank, world_size):
    dist.all_gather([torch.zeros(3) for _ in range(2)], ONE)


@row()
def an_all_gather_into_a_tensor_of_another_size(rank, world_size):
    dist.all_gather_into_tensor(torch.zeros(5), ONE)


@row()
def a_reduce_scatter_of_another_size(rank, world_size):
    dist.reduce_scatter_tensor(torch.zeros(2), torch.zeros(5))


@row()
def a_reduce_scatter_of_too_few(rank, world_size):
    dist.reduce_scatter(torch.zeros(2), [ONE])


@row()
def a_gather_into_too_few(rank, world_size):
    dist.gather(ONE, [torch.zeros(2)] if rank == 0 else None, 0)


@row()
def a_gather_with_a_list_where_none_belongs(rank, world_size):
    dist.gather(ONE, [torch.zeros(2) for _ in range(2)], 0)


@row()
def a_gather_without_a_list(rank, world_size):
    dist.gather(ONE, None, 0)


@row()
def a_gather_of_another_size(rank, world_size):
    dist.gather(ONE, [torch.zeros(3) for _ in range(2)] if rank == 0 else None, 0)


@row()
def a_scatter_of_too_few(rank, world_size):
    dist.scatter(torch.zeros(2), [ONE] if rank == 0 else None, 0)


@row()
def a_scatter_of_another_size(rank, world_size):
    dist.scatter(torch.zeros(2), [torch.zeros(3) for _ in range(2)] if rank == 0 else None, 0)


@row()
def a_scatter_with_a_list_where_none_belongs(rank, world_size):
    dist.scatter(torch.zeros(2), [ONE.clone() for _ in range(2)], 0)


@row()
def an_all_to_all_of_too_few(rank, world_size):
    dist.all_to_all([torch.zeros(2)], [ONE])


@row()
def splits_that_do_not_add_up(rank, world_size):
    dist.all_to_all_single(torch.zeros(4), torch.ones(4), [1, 1], [2, 2])


@row()
def a_size_that_does_not_divide(rank, world_size):
    dist.all_to_all_single(torch.zeros(3), torch.ones(3))


@row()
def an_all_to_all_of_two_types(rank, world_size):
    dist.all_to_all_single(torch.zeros(4, dtype=torch.float64), torch.ones(4))


@row()
def a_root_that_does_not_exist(rank, world_size):
    dist.broadcast(ONE, 7)


@row(3)
def a_root_outside_the_group(rank, world_size):
    group = dist.new_group([0, 1])
    if rank < 2:
        dist.broadcast(ONE, 2, group=group)


@row(3)
def a_peer_outside_the_group(rank, world_size):
    group = dist.new_group([0, 1])
    if rank < 2:
        dist.send(ONE, 2, group=group)


@row(3)
def a_group_that_one_is_no_member_of(rank, world_size):
    group = dist.new_group([0, 1])
    tensor = torch.ones(2)
    dist.all_reduce(tensor, group=group)
    return tensor


@row(3)
def a_message_in_a_group_that_one_is_no_member_of(rank, world_size):
    group = dist.new_group([0, 1])
    if rank == 2:
        dist.send(ONE, 0, group=group)


@row()
def a_group_of_strangers(rank, world_size):
    dist.new_group([0, 7])


@row()
def a_group_with_one_rank_twice(rank, world_size):
    dist.new_group([0, 0])


@row()
def initialised_twice(rank, world_size):
    dist.init_process_group("gloo", init_method="env://")


@row()
def used_after_it_was_destroyed(rank, world_size):
    dist.destroy_process_group()
    dist.all_reduce(ONE)


@row()
def a_batch_of_nothing(rank, world_size):
    dist.batch_isend_irecv([])


@row()
def a_batch_with_a_negative_tag(rank, world_size):
    dist.batch_isend_irecv([dist.P2POp(dist.isend, ONE, 1 - rank, tag=-1)])


@row()
def a_bitwise_reduction_of_floats(rank, world_size):
    dist.all_reduce(ONE, op=dist.ReduceOp.BAND)


@row()
def an_average_of_integers(rank, world_size):
    tensor = torch.tensor([1, 2]) + rank
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    return tensor


@row()
def a_sum_of_bools(rank, world_size):
    tensor = torch.tensor([True, False, bool(rank)])
    dist.all_reduce(tensor)
    return tensor


@row()
def a_sparse_tensor(rank, world_size):
    dist.send(torch.eye(2).to_sparse(), 1 - rank)


@row()
def a_buffer_too_small(rank, world_size):
    dist.send(torch.ones(8), 1) if rank == 0 else dist.recv(torch.ones(4), 0)


@row(loose=True)
def a_buffer_too_small_is_posted_first(rank, world_size):
    if rank == 1:
        work = dist.irecv(torch.ones(4), 0)
        dist.barrier()
        work.wait()
    else:
        dist.barrier()
        dist.send(torch.ones(8), 1)


@row()
def a_buffer_with_too_few_bytes(rank, world_size):
    buffer = torch.ones(4, dtype=torch.float16)
    dist.send(torch.ones(4), 1) if rank == 0 else dist.recv(buffer, 0)


@row(loose=True)
def all_reduces_of_other_sizes(rank, world_size):
    dist.all_reduce(torch.ones(4 + rank))


@row()
def broadcasts_of_other_sizes(rank, world_size):
    dist.broadcast(torch.ones(4 + rank), 0)


@row()
def broadcasts_of_smaller_sizes(rank, world_size):
    tensor = torch.ones(4 - rank)
    dist.broadcast(tensor, 0)
    return tensor


@row(loose=True)
def all_gathers_of_other_sizes(rank, world_size):
    dist.all_gather([torch.zeros(2 + rank) for _ in range(2)], torch.ones(2 + rank))


@row()
def collectives_of_other_types(rank, world_size):
    tensor = torch.ones(4, dtype=torch.int32 if rank else torch.float32)
    dist.all_reduce(tensor)
    return tensor


@row()
def reductions_that_disagree(rank, world_size):
    tensor = torch.arange(4.0) + 2 * rank
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM)
    return tensor


@row()
def swapped_all_reduces(rank, world_size):
    one, two = torch.full((3,), 1.0 + rank), torch.full((3,), 10.0 + rank)
    first, second = (one, two) if rank == 0 else (two, one)
    dist.all_reduce(first)
    dist.all_reduce(second)
    return one, two
