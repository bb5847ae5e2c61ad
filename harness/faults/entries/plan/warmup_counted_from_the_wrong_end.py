"""The warmup grows with the rank instead of shrinking.

Does: A 1F1B plan lets rank r run r forwards before its first backward.

Wrong: The first rank needs the most, because its first gradient has the longest way; the last needs
none.

Shows: The first rank waits for a gradient before it has sent what the last rank needs in order to
make one: each rank alone is in order, all together cannot run.

Instead: warmup = min(chunks, world_size - rank - 1).
"""

LABEL = {
    "class": "plan",
    "scope": "plan",
    "source": "micropp ebdee75",
    "world": 2,
    "chunks": 2,
    "code": "plan-invalid",
    "ranks": [0, 1],
    "options": {"cases": 2},
}


def faulty(rank, world_size, chunks):
    warmup = min(chunks, rank)
    for microbatch in range(warmup):
        yield f"{rank}F{microbatch}"
    for microbatch in range(chunks - warmup):
        yield f"{rank}F{warmup + microbatch}"  # fault: rank 1 stops here
        yield f"{rank}B{microbatch}"  # fault: rank 0 stops here
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
