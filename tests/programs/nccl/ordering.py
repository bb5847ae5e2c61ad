"""Programs that finish on gloo and hang in one of NCCL's queues, each with its correct twin.

After public reports, whose numbers in the list of known bugs stand in the docstrings. A comment
``stuck`` is at a wait that would not return, ``ahead`` at what stands before others in the queue.

Not here: a batch that is too large (13) hangs in NCCL's own use of its channels and connections;
there is no rule of ordering or capacity of which that would follow, so nothing could be shown by
a small program. A delay by an early receive (9) is only the slow case of the hang below.
"""

# mypy: ignore-errors

import threading

import torch
import torch.distributed as dist

WIDTH = 1024


def _exchange(peer, sent):
    """Send and receive as one batch."""
    received = torch.zeros_like(sent)
    operations = [
        dist.P2POp(dist.isend, sent, peer),
        dist.P2POp(dist.irecv, received, peer),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return received


def criss_cross(rank, world_size):
    """2. Both send before they receive: each receive waits behind its own rank's send."""
    sent, received, peer = torch.ones(WIDTH), torch.zeros(WIDTH), 1 - rank
    work = dist.isend(sent, peer)  # ahead
    dist.recv(received, peer)  # stuck
    work.wait()


def criss_cross_in_a_batch(rank, world_size):
    """2, instead: both directions in one batch, whose parts do not wait for each other."""
    _exchange(1 - rank, torch.ones(WIDTH))


def late_receive(rank, world_size):
    """7. Rank 1 receives first, as parity has it, but its second receive comes too late."""
    here = [torch.ones(WIDTH), torch.ones(WIDTH)]
    there = [torch.zeros(WIDTH), torch.zeros(WIDTH)]
    if rank == 0:
        works = [dist.isend(tensor, 1) for tensor in here]  # ahead 0
        for tensor in there:
            dist.recv(tensor, 1)  # stuck 0
    else:
        dist.recv(there[0], 0)
        works = [dist.isend(tensor, 0) for tensor in here]  # ahead 1
        dist.recv(there[1], 0)  # stuck 1
    for work in works:
        work.wait()


def receive_in_turn(rank, world_size):
    """7, instead: every message of one rank has its receive at the same place of the other."""
    for number in range(2):
        _exchange(1 - rank, torch.full((WIDTH,), float(number)))


def _connect_pairs(rank, world_size):
    """Let every pair use its communicator once, all ranks in the same order of pairs."""
    for low in range(world_size):
        for high in range(low + 1, world_size):
            if rank == low:
                dist.send(torch.ones(1), high)
            elif rank == high:
                dist.recv(torch.ones(1), low)


def unrelated_edges(rank, world_size):
    """8. Three messages around a ring: none needs another, but each stands behind a receive."""
    _connect_pairs(rank, world_size)
    sent, received = torch.ones(4), torch.zeros(4)
    early = dist.irecv(received, (rank - 1) % world_size)  # ahead
    late = dist.isend(sent, (rank + 1) % world_size)
    late.wait()  # stuck
    early.wait()


def unrelated_edges_sends_first(rank, world_size):
    """8, instead: one of the ring receives first, so the messages follow one after the other."""
    _connect_pairs(rank, world_size)
    sent, received = torch.ones(4), torch.zeros(4)
    before, after = (rank - 1) % world_size, (rank + 1) % world_size
    if rank == 0:
        dist.recv(received, before)
        dist.send(sent, after)
    else:
        dist.send(sent, after)
        dist.recv(received, before)


def early_receive(rank, world_size):
    """9. A receive posted ahead holds up the very send that its message answers."""
    question, answer = torch.ones(4), torch.zeros(4)
    if rank == 0:
        early = dist.irecv(answer, 1)  # ahead
        dist.send(question, 1)  # stuck 0
        early.wait()
    else:
        dist.recv(question, 0)  # stuck 1
        dist.send(question + 1, 0)


def receive_after_the_send(rank, world_size):
    """9, instead: post the receive behind the send."""
    question, answer = torch.ones(4), torch.zeros(4)
    if rank == 0:
        work = dist.isend(question, 1)
        dist.recv(answer, 1)
        work.wait()
    else:
        dist.recv(question, 0)
        dist.send(question + 1, 0)


def reduce_and_message_in_other_orders(rank, world_size):
    """26. Rank 0 reduces, then sends; rank 1 receives, then reduces."""
    total, tensor = torch.ones(4), torch.ones(4)
    if rank == 0:
        reduced = dist.reduce(total, 0, async_op=True)  # ahead
        dist.send(tensor, 1)  # stuck 0
        reduced.wait()
    else:
        dist.recv(tensor, 0)  # stuck 1
        dist.reduce(total, 0)


def reduce_and_message_in_one_order(rank, world_size):
    """26, instead: the same order on both ranks."""
    total, tensor = torch.ones(4), torch.ones(4)
    reduced = dist.reduce(total, 0, async_op=True)
    if rank == 0:
        dist.send(tensor, 1)
    else:
        dist.recv(tensor, 0)
    reduced.wait()


def _from_two_threads(rank, messages):
    """One thread for a message in group ``messages``, the main one for a collective."""
    total, tensor, received = torch.ones(4), torch.ones(4), threading.Event()

    def receive():
        work = dist.irecv(tensor, 0, messages)
        received.set()
        work.wait()  # stuck 1

    if rank == 0:
        summed = dist.all_reduce(total, async_op=True)  # ahead 0
        thread = threading.Thread(target=lambda: dist.send(tensor, 1, messages))
        thread.start()
    else:
        thread = threading.Thread(target=receive)
        thread.start()
        received.wait()
        summed = dist.all_reduce(total, async_op=True)
    thread.join()
    summed.wait()


def two_threads_on_one_group(rank, world_size):
    """27. Messages and collectives come from two threads, in whatever order these take."""
    _from_two_threads(rank, None)


def two_threads_with_a_group_each(rank, world_size):
    """27, instead: each thread has a group of its own."""
    messages = dist.new_group()
    dist.barrier()
    dist.barrier(messages)
    _from_two_threads(rank, messages)


def by_payload_size(rank, world_size):
    """28. Four sends before the first receive: small ones pass, large ones do not."""
    peer, received = 1 - rank, torch.zeros(WIDTH)
    works = [dist.isend(torch.ones(WIDTH), peer) for _ in range(4)]  # ahead
    for _ in range(4):
        dist.recv(received, peer)  # stuck
    for work in works:
        work.wait()


def by_payload_size_in_batches(rank, world_size):
    """28, instead: each send in a batch with the receive that goes the other way."""
    for _ in range(4):
        _exchange(1 - rank, torch.ones(WIDTH))


def tags_swapped(rank, world_size):
    """Tags that say which message is which: NCCL has none, and goes by the order."""
    first, second = torch.zeros(4), torch.ones(4)
    if rank == 0:
        works = [
            dist.isend(first, 1, tag=1),  # sent
            dist.isend(second, 1, tag=2),
        ]
    else:
        works = [
            dist.irecv(second, 0, tag=2),  # taken
            dist.irecv(first, 0, tag=1),
        ]
    for work in works:
        work.wait()


def tags_in_order(rank, world_size):
    """Instead: receives in the order of the sends."""
    for number in range(2):
        if rank == 0:
            dist.send(torch.ones(4), 1, tag=number)
        else:
            dist.recv(torch.ones(4), 0, tag=number)
