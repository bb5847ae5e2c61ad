"""The cooldown ends one backward too early.

Does: A 1F1B plan runs its warmup forwards, then pairs of a forward and a backward, then the
backwards that are left.

Wrong: The last loop counts from one too high, so that the last microbatch has no backward.

Shows: Before anything runs: the backward of the last microbatch is missing, on every rank that has
a cooldown. Run as it is, nothing would hang where all ranks drop the same one.

Instead: As many backwards in the cooldown as forwards in the warmup.
"""

LABEL = {
    "class": "plan",
    "scope": "plan",
    "source": "pytorch#139415; TrainVerify (microbatch dropped)",
    "world": 2,
    "chunks": 1,
    "code": "plan-invalid",
    "ranks": [0],
    "options": {"cases": 2},
}


def faulty(rank, world_size, chunks):
    warmup = min(chunks, world_size - rank - 1)
    for microbatch in range(warmup):
        yield f"{rank}F{microbatch}"  # fault: has no backward
    for microbatch in range(warmup, chunks):
        yield f"{rank}F{microbatch}"
        yield f"{rank}B{microbatch - warmup}"
    for microbatch in range(chunks - warmup + 1, chunks):  # fault
        yield f"{rank}B{microbatch}"


def correct(rank, world_size, chunks):
    warmup = min(chunks, world_size - rank - 1)
    for microbatch in range(warmup):
        yield f"{rank}F{microbatch}"
    for microbatch in range(warmup, chunks):
        yield f"{rank}F{microbatch}"
        yield f"{rank}B{microbatch - warmup}"
    for microbatch in range(chunks - warmup, chunks):
        yield f"{rank}B{microbatch}"
