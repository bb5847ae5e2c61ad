"""A gradient is received that nobody sends.

Does: A GPipe plan with its sends and receives leaves the sending of gradients to the last rank out.

Wrong: The last rank is the one that has the first gradient: the condition excludes the wrong end.

Shows: Before anything runs: each receive of a gradient has no send. Run as it is, the first rank
waits for ever.

Instead: Send back on every rank but the first.
"""

LABEL = {
    "class": "plan",
    "scope": "plan",
    "source": "DeepSpeed#5518 (more gradients expected than sent)",
    "world": 2,
    "chunks": 1,
    "code": "plan-invalid",
    "ranks": [0],
    "options": {"cases": 2},
}


def faulty(rank, world_size, chunks):
    for microbatch in range(chunks):
        if rank > 0:
            yield f"{rank}RECV_F{microbatch}"
        yield f"{rank}F{microbatch}"
        if rank < world_size - 1:
            yield f"{rank}SEND_F{microbatch}"
    for microbatch in range(chunks):
        if rank < world_size - 1:
            yield f"{rank}RECV_B{microbatch}"  # fault: no send for it
        yield f"{rank}B{microbatch}"
        if 0 < rank < world_size - 1:  # fault
            yield f"{rank}SEND_B{microbatch}"


def correct(rank, world_size, chunks):
    for microbatch in range(chunks):
        if rank > 0:
            yield f"{rank}RECV_F{microbatch}"
        yield f"{rank}F{microbatch}"
        if rank < world_size - 1:
            yield f"{rank}SEND_F{microbatch}"
    for microbatch in range(chunks):
        if rank < world_size - 1:
            yield f"{rank}RECV_B{microbatch}"
        yield f"{rank}B{microbatch}"
        if rank > 0:
            yield f"{rank}SEND_B{microbatch}"
