"""A schedule that promises 1F1B's memory runs all forwards first.

Does: A plan runs all forwards and then all backwards, which is GPipe, and is used where 1F1B's
bound is counted on.

Wrong: Every rank holds the activations of all microbatches at once.

Shows: Numbers and time are those of 1F1B. Memory grows with the number of microbatches, and runs
out when that is raised to shrink the bubble.

Instead: Start a backward as soon as world_size - rank microbatches are in flight.
"""

LABEL = {
    "class": "memory",
    "scope": "plan",
    "source": "the course (GPipe against 1F1B); PipeDream-flush",
    "world": 1,
    "chunks": 2,
    "code": "memory-bound",
    "ranks": [0],
    "details": {"rank 0": {"peak": 2, "bound": 1}},
    "options": {"cases": 2},
}


def faulty(rank, world_size, chunks):
    warmup = chunks  # fault
    for microbatch in range(warmup):
        yield f"{rank}F{microbatch}"  # fault: goes too far
    for microbatch in range(chunks - warmup):
        yield f"{rank}F{warmup + microbatch}"
        yield f"{rank}B{microbatch}"
    for microbatch in range(chunks - warmup, chunks):
        yield f"{rank}B{microbatch}"


faulty.promises = "1f1b"


def correct(rank, world_size, chunks):
    warmup = min(chunks, world_size - rank - 1)
    for microbatch in range(warmup):
        yield f"{rank}F{microbatch}"
    for microbatch in range(chunks - warmup):
        yield f"{rank}F{warmup + microbatch}"
        yield f"{rank}B{microbatch}"
    for microbatch in range(chunks - warmup, chunks):
        yield f"{rank}B{microbatch}"


correct.promises = "1f1b"
