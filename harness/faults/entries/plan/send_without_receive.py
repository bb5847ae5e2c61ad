"""A gradient is sent that nobody receives.

Does: A GPipe plan sends each gradient back, and the rank before does not receive that of the last
microbatch.

Wrong: Its backward is run with no gradient from behind: what it uses was never received.

Shows: Before anything runs: a send has no receive, and a backward needs one. Run as it is, the
sender waits, or the message is taken by the next step's first receive.

Instead: One receive for each send.
"""

LABEL = {
    "class": "plan",
    "scope": "plan",
    "source": "TrainVerify (missing communication); MPI Bugs Initiative (unmatched call)",
    "world": 2,
    "chunks": 1,
    "code": "plan-invalid",
    "ranks": [0, 1],
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
        if rank < world_size - 1 and microbatch < chunks - 1:  # fault
            yield f"{rank}RECV_B{microbatch}"
        yield f"{rank}B{microbatch}"  # fault: its gradient is not received
        if rank > 0:
            yield f"{rank}SEND_B{microbatch}"  # fault: no receive for it


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
