"""Microbatches are sent in one order and received in another.

Does: Stage 0 computes all microbatches and sends the last one first; stage 1 receives them in
order.

Wrong: Messages between two ranks pair by their order. Stage 1 takes the last microbatch for the
first.

Shows: Nothing hangs or fails. With equal sizes the outputs are compared with the wrong targets.

Instead: Send in the order in which the other stage receives.
"""

LABEL = {
    "class": "message-race",
    "scope": "plan",
    "source": "MPI Bugs Initiative (message race, overtaking)",
    "world": 2,
    "chunks": 2,
    "code": "message-swap",
    "ranks": [0, 1],
    "details": {"what": "microbatch"},
}


def _plan(rank, world_size, chunks, order):
    for number in range(chunks):
        if rank > 0:
            yield f"{rank}RECV_F{number}"  # fault
        yield f"{rank}F{number}"
    if rank < world_size - 1:
        yield from (f"{rank}SEND_F{number}" for number in order)  # fault
    for number in range(chunks):
        if rank < world_size - 1:
            yield f"{rank}RECV_B{number}"
        yield f"{rank}B{number}"
        if rank > 0:
            yield f"{rank}SEND_B{number}"


def faulty(rank, world_size, chunks):
    order = reversed(range(chunks)) if rank == 0 else range(chunks)
    yield from _plan(rank, world_size, chunks, order)


def correct(rank, world_size, chunks):
    yield from _plan(rank, world_size, chunks, range(chunks))
