"""Programs of two ranks that use a tensor while it is sent or received: right ones and wrong ones.

Rank 1 receives what rank 0 sends; the use that is meant stands in the line with the comment.
"""

# mypy: ignore-errors

import torch
import torch.distributed as dist

SIZE = 4


def _receiver(use):
    """A program whose rank 1 uses the buffer between the post of its receive and the wait."""

    def program(rank, world_size):
        if rank == 0:
            return dist.send(torch.full((SIZE, SIZE), 2.0), 1)
        buffer = torch.zeros(SIZE, SIZE)
        work = dist.irecv(buffer, 0)
        use(buffer)
        work.wait()
        return None

    program.__name__ = use.__name__
    return program


def _sender(use):
    """A program whose rank 0 uses the tensor between the post of its send and the wait."""

    def program(rank, world_size):
        if rank == 1:
            dist.barrier()
            return dist.recv(torch.empty(SIZE, SIZE), 0)
        tensor = torch.ones(SIZE, SIZE)
        work = dist.isend(tensor, 1)
        use(tensor)
        dist.barrier()
        work.wait()
        return None

    program.__name__ = use.__name__
    return program


def reads(t):
    t + 1  # used


def reads_a_slice(t):
    t[1, 2:].sum()  # used


def reads_a_view(t):
    t.t().reshape(-1).sum()  # used


def reads_an_element(t):
    float(t[0, 0])  # used


def reads_by_data(t):
    t.data.clone()  # used


def reads_by_detach(t):
    t.detach().mul(2)  # used


def reads_in_a_list(t):
    torch.cat([torch.zeros(1, SIZE), t])  # used


def reads_a_stride(t):
    t[:, 1].sum()  # used


def reads_in_a_layer(t):
    torch.nn.functional.linear(t, torch.ones(2, SIZE))  # used


def writes_in_place(t):
    t.add_(1)  # used


def writes_by_operator(t):
    t += 1  # used


def writes_an_element(t):
    t[0, 0] = 5  # used


def writes_a_slice_by_copy(t):
    t[1].copy_(torch.ones(SIZE))  # used


def writes_by_out(t):
    torch.ones(SIZE, SIZE, out=t)  # used


def writes_by_data(t):
    t.data.zero_()  # used


def writes_by_a_view_without_grad(t):
    with torch.no_grad():
        t.view(-1)[3:5].fill_(1)  # used


def writes_by_an_optimizer(t):
    parameter = torch.nn.Parameter(t)
    parameter.grad = torch.ones(SIZE, SIZE)
    torch.optim.SGD([parameter], 0.1).step()  # used


def writes_in_foreach(t):
    torch._foreach_add_([t, torch.ones(1)], 1.0)  # used


def writes_by_numpy(t):
    t.numpy()[0, 0] = 7


def is_used_by_a_backward(t):
    weight = torch.ones(SIZE, SIZE, requires_grad=True)
    saved = torch.ones(SIZE, SIZE)
    loss = (weight * saved).sum()
    saved.set_(t)
    loss.backward()


READS = [
    reads, reads_a_slice, reads_a_view, reads_an_element, reads_by_data, reads_by_detach,
    reads_in_a_list, reads_a_stride, reads_in_a_layer,
]  # fmt: skip
WRITES = [
    writes_in_place, writes_by_operator, writes_an_element, writes_a_slice_by_copy, writes_by_out,
    writes_by_data, writes_by_a_view_without_grad, writes_by_an_optimizer, writes_in_foreach,
]  # fmt: skip


def looks_only(t):
    t.shape, t.dtype, t.is_contiguous(), t.view(-1), t[1:], t.detach(), torch.empty_like(t)
    t.requires_grad_()


def uses_another(t):
    (t.new_ones(SIZE) + 1).sum()


def reads_in_an_older_graph(rank, world_size):
    """The backward reads what the forward saved, while it is received anew."""
    buffer = torch.ones(SIZE)
    if rank == 0:
        return dist.send(torch.ones(SIZE), 1)
    weight = torch.ones(SIZE, requires_grad=True)
    loss = (weight * buffer).sum()
    work = dist.irecv(buffer, 0)
    loss.backward()  # used
    work.wait()
    return None


def writes_a_gradient_that_is_sent(rank, world_size):
    """A second backward accumulates into the gradient that is being sent."""
    if rank == 1:
        dist.barrier()
        return dist.recv(torch.empty(SIZE), 0)
    leaf = torch.ones(SIZE, requires_grad=True)
    (leaf * 2).sum().backward()
    work = dist.isend(leaf.grad, 1)
    (leaf * 2).sum().backward()  # used
    dist.barrier()
    work.wait()
    return None


def sends_what_it_receives(rank, world_size):
    buffer = torch.ones(SIZE)
    if rank == 0:
        dist.send(buffer, 1)
        return dist.recv(buffer, 1)
    work = dist.irecv(buffer, 0)
    other = dist.isend(buffer, 0)  # used
    work.wait()
    other.wait()
    return None


# right programs


def receives_into_slices_of_one_tensor(rank, world_size):
    """All under way at once; each is used as soon as it has been waited for."""
    whole = torch.zeros(3, SIZE)
    if rank == 0:
        for place in range(3):
            dist.send(torch.full((SIZE,), float(place)), 1, tag=place)
        return None
    works = [dist.irecv(whole[place], 0, tag=place) for place in range(3)]
    total = 0.0
    for place, work in enumerate(works):
        work.wait()
        total += float(whole[place].sum())
        whole[place].add_(1)
    return total


def uses_columns_beside_one_that_is_received(rank, world_size):
    whole = torch.zeros(SIZE, SIZE)
    if rank == 0:
        return dist.send(torch.ones(SIZE), 1)
    work = dist.irecv(whole[1], 0)
    whole[0].add_(1), whole[2:].sum(), whole[::2].mul_(2), whole[::2, 1].sum()
    work.wait()
    return None


def reads_a_tensor_that_is_sent(rank, world_size):
    if rank == 1:
        return dist.recv(torch.empty(SIZE), 0)
    tensor = torch.ones(SIZE, requires_grad=True)
    work = dist.isend(tensor.detach(), 1)
    (tensor * 2).sum().backward()
    tensor.clone(), tensor.detach().numpy().sum()
    work.wait()
    return None


def makes_a_leaf_of_its_buffer(rank, world_size):
    if rank == 0:
        return dist.send(torch.ones(SIZE), 1)
    buffer = torch.empty(SIZE).requires_grad_()
    work = dist.irecv(buffer, 0)
    work.wait()
    (buffer * buffer).sum().backward()
    return None


def uses_its_buffers_again(rank, world_size):
    buffers = [torch.zeros(SIZE), torch.zeros(SIZE)]
    for step in range(6):
        buffer = buffers[step % 2]
        if rank == 0:
            buffer.fill_(step)
            dist.isend(buffer, 1).wait()
        else:
            dist.irecv(buffer, 0).wait()
            assert buffer.tolist() == [step] * SIZE
    both = [
        dist.P2POp(dist.isend, buffers[0], 1 - rank),
        dist.P2POp(dist.irecv, buffers[1], 1 - rank),
    ]
    for work in dist.batch_isend_irecv(both):
        work.wait()
    buffers[0].add_(buffers[1])


def lets_a_buffer_go_and_allocates(rank, world_size):
    """The storage of what has been waited for may be handed out again."""
    for _ in range(20):
        if rank == 0:
            dist.send(torch.ones(SIZE), 1)
        else:
            buffer = torch.empty(SIZE)
            dist.irecv(buffer, 0).wait()
            del buffer
            torch.ones(SIZE).add_(1)


def sums_while_it_receives(rank, world_size):
    """Two buffers in turn: one is used while the other is filled."""
    if rank == 0:
        for step in range(4):
            dist.send(torch.full((SIZE,), float(step)), 1)
        return None
    buffers, total = [torch.empty(SIZE), torch.empty(SIZE)], torch.zeros(SIZE)
    work = dist.irecv(buffers[0], 0)
    for step in range(4):
        work.wait()
        if step < 3:
            work = dist.irecv(buffers[(step + 1) % 2], 0)
        total += buffers[step % 2]
    return total.tolist()


RIGHT = [
    receives_into_slices_of_one_tensor, uses_columns_beside_one_that_is_received,
    reads_a_tensor_that_is_sent, makes_a_leaf_of_its_buffer, uses_its_buffers_again,
    lets_a_buffer_go_and_allocates, sums_while_it_receives,
]  # fmt: skip
