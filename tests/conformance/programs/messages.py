"""Messages between two ranks, in every form (three ranks where said), and all that finishes."""

# mypy: ignore-errors

import time

import torch
import torch.distributed as dist

from tests.conformance.rows import attempt, row

EVERY_TYPE = (
    "float64", "float32", "float16", "bfloat16", "complex64", "complex128", "uint8", "int8",
    "int16", "int32", "int64", "bool", "float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64",
)  # fmt: skip


def data(count=3, start=0, dtype=torch.float32):
    return torch.arange(start, start + count).to(dtype)


@row()
def blocking(rank, world_size):
    if rank == 0:
        dist.send(data(5, 10), 1)
        dist.send(data(1), dst=1, tag=7)
        return None
    one, two = torch.zeros(5), torch.zeros(1)
    return dist.recv(one, 0), one, dist.recv(two, src=0, tag=7), two


@row()
def of_any_size(rank, world_size):
    out = []
    for count in (0, 1, 2, 1000, 70_000, 400_000):
        tensor = data(count, count)
        if rank == 0:
            dist.send(tensor, 1)
        else:
            buffer = torch.zeros(count)
            dist.recv(buffer, 0)
            out.append(bool((buffer == tensor).all()))
    return out


@row()
def of_every_type(rank, world_size):
    out = []
    for name in EVERY_TYPE:
        dtype = getattr(torch, name)
        if rank == 0:
            out.append(attempt(dist.send, data(4).to(dtype), 1))
        else:
            buffer = torch.zeros(4).to(dtype)
            out.append(attempt(dist.recv, buffer, 0))
            out.append(buffer.view(torch.uint8).tolist())
    return out


@row()
def of_every_shape(rank, world_size):
    """Scalars, empty ones, parts of others, views."""
    whole = data(24, 1).reshape(2, 3, 4)
    shapes = [torch.tensor(5.0), torch.empty(0), torch.empty(2, 0), whole, whole[1], whole[0, 1]]
    out = []
    for tensor in shapes:
        if rank == 0:
            dist.send(tensor, 1)
        else:
            buffer = torch.zeros_like(tensor)
            dist.recv(buffer, 0)
            out.append(buffer)
    return out


@row()
def into_a_view(rank, world_size):
    whole = torch.zeros(4, 3)
    if rank == 0:
        dist.send(data(3, 1), 1)
    else:
        dist.recv(whole[2], 0)
    return whole


@row()
def with_a_gradient(rank, world_size):
    tensor = torch.ones(3, requires_grad=True)
    if rank == 0:
        return attempt(dist.send, tensor * 2, 1)
    return attempt(dist.recv, tensor, 0), tensor, tensor.is_leaf


@row()
def without_waiting(rank, world_size):
    buffer = torch.zeros(3)
    work = dist.isend(data(3, 4), 1) if rank == 0 else dist.irecv(buffer, 0)
    return work.wait(), buffer, work.is_completed(), work.is_success()


@row()
def same_tag_in_order_of_posting(rank, world_size):
    buffers = [torch.zeros(2) for _ in range(4)]
    if rank == 0:
        works = [dist.isend(data(2, 10 * k), 1) for k in range(4)]
    else:
        works = [dist.irecv(buffers[k], 0) for k in range(4)]
    for k in (2, 0, 3, 1):
        works[k].wait()
    return buffers


@row()
def tags_in_any_order(rank, world_size):
    buffers = [torch.zeros(2) for _ in range(4)]
    if rank == 0:
        works = [dist.isend(data(2, 10 * k), 1, tag=k) for k in range(4)]
    else:
        works = [dist.irecv(buffers[k], 0, tag=k) for k in (3, 1, 0, 2)]
    for work in works:
        work.wait()
    return buffers


@row()
def both_ways_at_once(rank, world_size):
    buffer, peer = torch.zeros(3), 1 - rank
    sent = dist.isend(data(3, rank), peer)
    dist.recv(buffer, peer)
    sent.wait()
    return buffer


@row(3)
def from_anyone(rank, world_size):
    if rank:
        dist.send(data(2, rank), 0)
        return None
    buffers = [torch.zeros(2) for _ in range(2)]
    sources = [dist.recv(buffer) for buffer in buffers]
    return sorted(
        (source, buffer.tolist()) for source, buffer in zip(sources, buffers, strict=True)
    )


@row(3)
def from_anyone_without_waiting(rank, world_size):
    if rank:
        dist.send(data(2, rank), 0, tag=3)
        return None
    buffers = [torch.zeros(2) for _ in range(2)]
    works = [dist.irecv(buffer, tag=3) for buffer in buffers]
    for work in works:
        work.wait()
    return sorted(buffer.tolist() for buffer in buffers)


@row(3)
def from_anyone_in_a_group(rank, world_size):
    group = dist.new_group([2, 1])
    if rank == 2:
        dist.send(data(2), 1, group=group)
    if rank == 1:
        buffer = torch.zeros(2)
        return dist.recv(buffer, group=group), buffer
    return None


@row(3)
def by_rank_in_the_group(rank, world_size):
    group = dist.new_group([1, 2])
    buffer = torch.zeros(2)
    if rank == 1:
        dist.send(data(2), group=group, group_dst=1)
        dist.isend(data(2, 5), group=group, group_dst=1).wait()
    if rank == 2:
        first = dist.recv(buffer, group=group, group_src=0), buffer.clone()
        dist.irecv(buffer, group=group, group_src=0).wait()
        return first, buffer
    return None


@row()
def objects(rank, world_size):
    if rank == 0:
        dist.send_object_list([{"a": 1}, "text", None, 3.5], 1)
        dist.send_object_list([b"x" * 5000], 1)
        return None
    first, second = [None] * 4, [None]
    return dist.recv_object_list(first, 0), first, dist.recv_object_list(second), second


@row()
def batches(rank, world_size):
    buffers = [torch.zeros(2) for _ in range(2)]
    peer = 1 - rank
    ops = [
        dist.P2POp(dist.isend, data(2, rank), peer, tag=1),
        dist.P2POp(dist.irecv, buffers[0], peer, tag=0),
        dist.P2POp(dist.irecv, buffers[1], peer, tag=1),
        dist.P2POp(dist.isend, data(2, 10 + rank), peer),
    ]
    works = dist.batch_isend_irecv(ops)
    for work in works:
        work.wait()
    return len(works), buffers


@row(3)
def a_ring(rank, world_size):
    total = value = torch.tensor(float(rank))
    for _ in range(world_size - 1):
        buffer = torch.zeros(())
        work = dist.isend(value, (rank + 1) % world_size)
        dist.recv(buffer, (rank - 1) % world_size)
        work.wait()
        total, value = total + buffer, buffer
    return total


@row()
def never_completed_without_a_wait(rank, world_size):
    """``is_completed`` of a message that arrived long ago, and that nobody waited for."""
    buffer = torch.zeros(2)
    work = dist.isend(data(2, 3), 1) if rank == 0 else dist.irecv(buffer, 0)
    dist.barrier()
    time.sleep(0.05)
    before = [work.is_completed() for _ in range(3)]
    work.wait()
    return before, work.is_completed(), buffer


@row()
def larger_buffer_is_filled_in_part(rank, world_size):
    buffer = torch.full((6,), -1.0)
    dist.send(data(4), 1) if rank == 0 else dist.recv(buffer, 0)
    return buffer


@row()
def larger_buffer_of_another_type(rank, world_size):
    buffer = torch.full((3,), -1, dtype=torch.int64)
    dist.send(data(3), 1) if rank == 0 else dist.recv(buffer, 0)
    return buffer


@row()
def bytes_are_taken_for_another_type(rank, world_size):
    buffer = torch.zeros(4, dtype=torch.int32)
    dist.send(data(4), 1) if rank == 0 else dist.recv(buffer, 0)
    return buffer


@row()
def bytes_of_half_as_many_elements(rank, world_size):
    buffer = torch.zeros(2, dtype=torch.float64)
    dist.send(data(4), 1) if rank == 0 else dist.recv(buffer, 0)
    return buffer


@row()
def another_shape(rank, world_size):
    buffer = torch.zeros(2, 3)
    dist.send(data(6), 1) if rank == 0 else dist.recv(buffer, 0)
    return buffer


@row()
def changed_after_isend_before_the_receive(rank, world_size):
    tensor = data(3)
    if rank == 0:
        work = dist.isend(tensor, 1)
        tensor.add_(100)
        dist.barrier()
        work.wait()
    else:
        dist.barrier()
        time.sleep(0.1)
        dist.recv(tensor, 0)
    return tensor


@row()
def touched_before_the_wait(rank, world_size):
    """The receive's buffer is written by the program, and then by the message."""
    tensor = torch.zeros(3)
    if rank == 1:
        work = dist.irecv(tensor, 0)
        tensor.add_(5)
        dist.barrier()
        work.wait()
    else:
        dist.barrier()
        time.sleep(0.1)
        dist.send(data(3, 1), 1)
    return tensor


@row()
def a_dropped_send_whose_receive_was_there(rank, world_size):
    buffer = torch.zeros(3)
    if rank == 1:
        work = dist.irecv(buffer, 0)
        dist.barrier()
        work.wait()
    else:
        dist.barrier()
        time.sleep(0.05)
        dist.isend(data(3, 1), 1)
    return buffer


@row()
def a_dropped_send_and_the_next_one(rank, world_size):
    """The receive gets the second message: the first was withdrawn."""
    buffer = torch.zeros(3)
    if rank == 0:
        dist.isend(data(3, 1), 1)
        dist.barrier()
        dist.send(data(3, 50), 1)
    else:
        dist.barrier()
        dist.recv(buffer, 0)
    return buffer


@row()
def a_dropped_receive_and_the_next_one(rank, world_size):
    buffer, other = torch.zeros(3), torch.zeros(3)
    if rank == 1:
        dist.irecv(other, 0)
        dist.barrier()
        dist.recv(buffer, 0)
    else:
        dist.barrier()
        dist.send(data(3, 1), 1)
    return buffer, other


@row()
def a_receive_dropped_after_its_message(rank, world_size):
    """Dropped while it comes in, it may take the connection with it; dropped after, it does not."""
    buffer, other = torch.zeros(3), torch.zeros(3)
    if rank == 1:
        work = dist.irecv(buffer, 0, tag=1)
        dist.recv(other, 0, tag=2)  # behind the first on the same connection
        del work
        dist.barrier()
    else:
        dist.isend(data(3, 1), 1, tag=1).wait()
        dist.send(data(3, 50), 1, tag=2)
        dist.barrier()
    return buffer, other


kept = []


@row()
def never_received(rank, world_size):
    if rank == 0:
        kept.append(dist.isend(data(), 1))


@row()
def posted_and_never_sent(rank, world_size):
    if rank == 0:
        kept.append(dist.irecv(data(), 1))


@row()
def received_and_never_waited_for(rank, world_size):
    buffer = torch.zeros(3)
    if rank == 0:
        dist.send(data(), 1)
    else:
        kept.append(dist.irecv(buffer, 0))


@row(3)
def many_at_once(rank, world_size):
    sends, receives, buffers = [], [], []
    for peer in range(world_size):
        if peer != rank:
            for k in range(20):
                buffers.append(torch.zeros(5))
                receives.append(dist.irecv(buffers[-1], peer, tag=k % 3))
                sends.append(dist.isend(data(5, 100 * rank + k), peer, tag=k % 3))
    for work in reversed(sends + receives):
        work.wait()
    return buffers
