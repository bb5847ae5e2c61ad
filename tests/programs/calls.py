"""Each function of ``torch.distributed`` once; the comment says what is to be recorded of it.

``# kind kind by function``: the kinds of the operations, and the function that the user called.
"""

# mypy: ignore-errors

import time

import torch
import torch.distributed as dist
from torch.distributed import P2POp, batch_isend_irecv, irecv, isend, recv, send


def every_call(rank, world_size):
    tensor, buffer = torch.ones(4), torch.ones(4)
    pair = [torch.ones(4), torch.ones(4)]
    long = torch.ones(8)
    if rank == 0:
        dist.send(tensor, 1)  # send by send
        send(tensor, 1, tag=3)  # send by send
        dist.isend(tensor, 1).wait()  # send by isend
        isend(tensor, 1).wait()  # send by isend
        works = batch_isend_irecv([P2POp(isend, tensor, 1)])  # send by batch_isend_irecv
        works[0].wait()
        dist.send_object_list([1], 1)  # send send by send_object_list
    else:
        dist.recv(buffer, 0)  # recv by recv
        recv(buffer, tag=3)  # recv by recv
        dist.irecv(buffer, 0).wait()  # recv by irecv
        irecv(buffer, 0).wait()  # recv by irecv
        works = batch_isend_irecv([P2POp(irecv, buffer, 0)])  # recv by batch_isend_irecv
        works[0].wait()
        dist.recv_object_list([None], 0)  # recv recv by recv_object_list
    dist.all_reduce(tensor)  # all_reduce by all_reduce
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX, async_op=True).wait()  # all_reduce by all_reduce
    dist.reduce(tensor, 1)  # reduce by reduce
    dist.broadcast(tensor, 1)  # broadcast by broadcast
    dist.all_gather(pair, tensor)  # all_gather by all_gather
    dist.all_gather_into_tensor(long, tensor)  # all_gather_into_tensor by all_gather_into_tensor
    dist.all_gather_object([None, None], rank)  # all_gather all_gather by all_gather_object
    dist.broadcast_object_list([rank], 0)  # broadcast broadcast by broadcast_object_list
    dist.gather(tensor, pair if rank == 0 else None, 0)  # gather by gather
    dist.scatter(tensor, pair if rank == 0 else None, 0)  # scatter by scatter
    if hasattr(dist, "all_gather_single"):  # torch 2.13
        dist.all_gather_single(long, tensor)  # all_gather_into_tensor by all_gather_single
        dist.reduce_scatter_single(tensor, long)  # reduce_scatter_tensor by reduce_scatter_single
    dist.reduce_scatter(tensor, pair)  # reduce_scatter by reduce_scatter
    dist.reduce_scatter_tensor(tensor, long)  # reduce_scatter_tensor by reduce_scatter_tensor
    dist.all_to_all(pair, [tensor, tensor])  # all_to_all by all_to_all
    dist.all_to_all_single(long, long.clone())  # all_to_all_single by all_to_all_single
    dist.barrier()  # barrier by barrier
    dist.monitored_barrier()  # monitored_barrier by monitored_barrier
    group = dist.new_group([1, 0])  # new_group by new_group
    dist.barrier(group=group)  # barrier by barrier


def helper(tensor, peer):
    return dist.isend(tensor, peer)  # posted


def finish(work):
    work.wait()  # waited


def through_helpers(rank, world_size):
    finish(helper(torch.ones(2), 1 - rank))


def subgroup(rank, world_size):
    group = dist.new_group([2, 0])
    if rank == 0:
        dist.send(torch.ones(1), 2, group=group)
    elif rank == 2:
        dist.recv(torch.ones(1), 0, group=group)
        dist.broadcast(torch.ones(1), 2, group=group, async_op=True)
    if rank == 0:
        dist.broadcast(torch.ones(1), 2, group=group)


_kept = []


def never_waits(rank, world_size):
    if rank == 0:
        _kept.append(dist.isend(torch.ones(1), 1))  # never waited for
    else:
        dist.recv(torch.ones(1), 0)


def destroys_while_pending(rank, world_size):
    if rank == 0:
        _kept.append(dist.isend(torch.ones(1), 1))  # pending
        dist.destroy_process_group()  # destroyed
    else:
        time.sleep(0.3)
        dist.recv(torch.ones(1), 0)


def initialises_again(rank, world_size):
    dist.barrier()
    dist.destroy_process_group()
    dist.init_process_group("gloo", init_method="env://")  # init_process_group
    dist.barrier()


def refused_and_again(rank, world_size):
    tensor = torch.ones(4, 4).t()
    try:
        if rank == 0:
            dist.send(tensor, 1)
        else:
            dist.recv(tensor, 0)
    except (RuntimeError, ValueError):
        pass
    tensor = tensor.contiguous()
    if rank == 0:
        dist.send(tensor, 1)
    else:
        dist.recv(tensor, 0)
