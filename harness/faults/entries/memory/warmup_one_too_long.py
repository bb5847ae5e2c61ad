"""The warmup is one forward too long.

Does: Rank r runs world_size - r forwards before its first pair of forward and backward.

Wrong: The pair's own forward comes on top: one more microbatch is in flight than needed.

Shows: Nothing but memory: each rank holds one activation more than its bound, the last two in place
of one.

Instead: warmup = min(chunks, world_size - rank - 1).
"""

LABEL = {
    "class": "memory",
    "scope": "plan",
    "source": "micropp ebdee75 (warmup counted wrong); the course",
    "world": 1,
    "chunks": 2,
    "code": "memory-bound",
    "ranks": [0],
    "details": {"rank 0": {"peak": 2, "bound": 1}},
    "options": {"cases": 2},
}


def faulty(rank, world_size, chunks):
    warmup = min(chunks, world_size - rank)  # fault
    for microbatch in range(warmup):
        yield f"{rank}F{microbatch}"
    for microbatch in range(chunks - warmup):
        yield f"{rank}F{warmup + microbatch}"  # fault: goes too far
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
