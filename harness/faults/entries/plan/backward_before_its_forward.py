"""A backward comes before its forward.

Does: The steady state of a 1F1B plan on the last rank is written with the backward first, as on the
other ranks, which have run forwards by then.

Wrong: The last rank has no warmup: the first backward has no forward before it.

Shows: Before anything runs: the action comes before what it needs.

Instead: One forward, then one backward, on every rank.
"""

LABEL = {
    "class": "plan",
    "scope": "plan",
    "source": "TrainVerify (order of actions)",
    "world": 1,
    "chunks": 1,
    "code": "plan-invalid",
    "ranks": [0],
    "options": {"cases": 2},
}


def faulty(rank, world_size, chunks):
    warmup = min(chunks, world_size - rank - 1)
    for microbatch in range(warmup):
        yield f"{rank}F{microbatch}"
    for microbatch in range(chunks - warmup):
        yield f"{rank}B{microbatch}"  # fault
        yield f"{rank}F{warmup + microbatch}"
    for microbatch in range(chunks - warmup, chunks):
        yield f"{rank}B{microbatch}"


def correct(rank, world_size, chunks):
    warmup = min(chunks, world_size - rank - 1)
    for microbatch in range(warmup):
        yield f"{rank}F{microbatch}"
    for microbatch in range(chunks - warmup):
        yield f"{rank}F{warmup + microbatch}"
        yield f"{rank}B{microbatch}"
    for microbatch in range(chunks - warmup, chunks):
        yield f"{rank}B{microbatch}"
