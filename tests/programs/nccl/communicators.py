"""Programs that finish on gloo and hang where NCCL's communicators are made, or are chosen.

Each has its correct twin. After public reports, whose numbers in the list of known bugs stand in
the docstrings. A comment ``stuck`` is at a call or wait that would not return.
"""

# mypy: ignore-errors

import torch
import torch.distributed as dist


def _batch(*operations):
    for work in dist.batch_isend_irecv(list(operations)):
        work.wait()  # of a batch


def ring_of_first_uses(rank, world_size):
    """10. Every rank first sends to the next: each pair waits for a rank that is at another."""
    sent, received = torch.ones(4), torch.zeros(4)
    work = dist.isend(sent, (rank + 1) % world_size)  # stuck
    dist.recv(received, (rank - 1) % world_size)
    work.wait()


def ring_in_batches(rank, world_size):
    """10, instead: batches use the group's communicator, to which all ranks come at once."""
    sent, received = torch.ones(4), torch.zeros(4)
    _batch(
        dist.P2POp(dist.isend, sent, (rank + 1) % world_size),
        dist.P2POp(dist.irecv, received, (rank - 1) % world_size),
    )


def skip_connection(rank, world_size):
    """12. Rank 2 takes its two inputs in one batch; rank 1 sends its part outside of one."""
    dist.barrier()
    tensor, skip = torch.ones(4), torch.ones(4)
    if rank == 0:
        _batch(dist.P2POp(dist.isend, tensor, 1), dist.P2POp(dist.isend, skip, 2))
    elif rank == 1:
        _batch(dist.P2POp(dist.irecv, tensor, 0))
        dist.send(tensor, 2)  # stuck
    else:
        _batch(dist.P2POp(dist.irecv, skip, 0), dist.P2POp(dist.irecv, tensor, 1))


def skip_connection_in_batches(rank, world_size):
    """12, instead: what is received in a batch is sent in one."""
    dist.barrier()
    tensor, skip = torch.ones(4), torch.ones(4)
    if rank == 0:
        _batch(dist.P2POp(dist.isend, tensor, 1), dist.P2POp(dist.isend, skip, 2))
    elif rank == 1:
        _batch(dist.P2POp(dist.irecv, tensor, 0))
        _batch(dist.P2POp(dist.isend, tensor, 2))
    else:
        _batch(dist.P2POp(dist.irecv, skip, 0), dist.P2POp(dist.irecv, tensor, 1))


def batch_against_single_receives(rank, world_size):
    """14. Rank 0 sends in a batch, rank 1 receives one by one: on two communicators."""
    dist.barrier()
    first, second = torch.ones(4), torch.ones(4)
    if rank == 0:
        _batch(dist.P2POp(dist.isend, first, 1), dist.P2POp(dist.isend, second, 1))
    else:
        dist.recv(first, 0)  # stuck
        dist.recv(second, 0)


def batch_against_batch(rank, world_size):
    """14, instead: a batch on both sides."""
    dist.barrier()
    peer, first, second = 1 - rank, torch.ones(4), torch.ones(4)
    do = dist.isend if rank == 0 else dist.irecv
    _batch(dist.P2POp(do, first, peer), dist.P2POp(do, second, peer))


def part_of_a_batch(rank, world_size):
    """14. Rank 0 means to wait for its send only: on NCCL a batch has one work for all of it."""
    question, answer, go = torch.ones(4), torch.zeros(4), torch.ones(1)
    dist.barrier()
    if rank == 0:
        sent, received = dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, question, 1), dist.P2POp(dist.irecv, answer, 1)]
        )
        sent.wait()  # stuck 0
        _batch(dist.P2POp(dist.isend, go, 1))
        received.wait()
    else:
        _batch(dist.P2POp(dist.irecv, question, 0))
        _batch(dist.P2POp(dist.irecv, go, 0))
        _batch(dist.P2POp(dist.isend, question, 0))


def batches_apart(rank, world_size):
    """14, instead: what is waited for at different times is in batches of its own."""
    question, answer, go = torch.ones(4), torch.zeros(4), torch.ones(1)
    dist.barrier()
    if rank == 0:
        for tensor in (question, go):
            _batch(dist.P2POp(dist.isend, tensor, 1))
        _batch(dist.P2POp(dist.irecv, answer, 1))
    else:
        for tensor in (question, go):
            _batch(dist.P2POp(dist.irecv, tensor, 0))
        _batch(dist.P2POp(dist.isend, question, 0))


def _two_groups(rank):
    tensor = torch.ones(4)
    part = dist.new_group([1, 2])
    if rank == 0:
        _batch(dist.P2POp(dist.isend, tensor, 1))
    elif rank == 1:
        _batch(dist.P2POp(dist.irecv, tensor, 0))
        dist.send(tensor, 2, part)
    else:
        dist.recv(tensor, 1, part)  # stuck
    dist.barrier()


def batch_before_the_group_has_met(rank, world_size):
    """15. The default group's first batch needs rank 2, which is in the other group until rank 1
    has left the batch."""
    _two_groups(rank)


def batch_after_the_group_has_met(rank, world_size):
    """15, instead: all ranks begin with a collective of the group."""
    dist.barrier()
    _two_groups(rank)
