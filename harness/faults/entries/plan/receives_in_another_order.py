"""Activations are received in another order than they are sent.

Does: The first rank sends the microbatches' activations from first to last, the second posts its
receives from last to first.

Wrong: Messages between two ranks carry no name: a receive takes what was sent first, whatever it is
called.

Shows: Sizes agree, so that nothing is raised: activations meet the targets of other microbatches.

Instead: Receive in the order of the sends; compute in whichever order you like.
"""

LABEL = {
    "class": "plan",
    "scope": "plan",
    "source": "TrainVerify (wrong pipeline source); Megatron#5271 (untagged messages)",
    "world": 2,
    "chunks": 2,
    "code": "message-swap",
    "ranks": [0, 1],
    "options": {"cases": 2},
}


def faulty(rank, world_size, chunks):
    for microbatch in range(chunks):
        place = chunks - 1 - microbatch if rank == 1 else microbatch  # fault
        if rank > 0:
            yield f"{rank}RECV_F{place}"  # fault: takes what is sent first
        yield f"{rank}F{place}"
        if rank < world_size - 1:
            yield f"{rank}SEND_F{place}"  # fault: sent from the first on
    for microbatch in range(chunks):
        if rank < world_size - 1:
            yield f"{rank}RECV_B{microbatch}"
        yield f"{rank}B{microbatch}"
        if rank > 0:
            yield f"{rank}SEND_B{microbatch}"


def correct(rank, world_size, chunks):
    for microbatch in range(chunks):
        place = microbatch
        if rank > 0:
            yield f"{rank}RECV_F{place}"
        yield f"{rank}F{place}"
        if rank < world_size - 1:
            yield f"{rank}SEND_F{place}"
    for microbatch in range(chunks):
        if rank < world_size - 1:
            yield f"{rank}RECV_B{microbatch}"
        yield f"{rank}B{microbatch}"
        if rank > 0:
            yield f"{rank}SEND_B{microbatch}"
