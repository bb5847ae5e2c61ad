"""The warmup is not clamped to the number of microbatches.

Does: A 1F1B plan runs world_size - rank - 1 forwards before its first backward.

Wrong: With fewer microbatches than that there are none left to run: the loop goes on past the last.

Shows: Right from world_size - 1 microbatches on, which is what is usually tried. Below, forwards of
microbatches that do not exist, and backwards from a negative number on.

Instead: warmup = min(chunks, world_size - rank - 1).
"""

from pipeline.actions import Action, Kind

LABEL = {
    "class": "plan",
    "scope": "plan",
    "source": "the course; micropp HEAD; Primus#1003; torchtitan#775",
    "world": 3,
    "chunks": 1,
    "code": "plan-invalid",
    "ranks": [0],
    "options": {"cases": 2},
}


def faulty(rank, world_size, chunks):
    warmup = world_size - rank - 1
    for microbatch in range(warmup):
        yield f"{rank}F{microbatch}"  # fault
    for microbatch in range(chunks - warmup):
        yield f"{rank}F{warmup + microbatch}"
        yield f"{rank}B{microbatch}"
    for microbatch in range(chunks - warmup, chunks):
        yield Action(rank, Kind.B, microbatch)  # fault


def correct(rank, world_size, chunks):
    warmup = min(chunks, world_size - rank - 1)
    for microbatch in range(warmup):
        yield f"{rank}F{microbatch}"
    for microbatch in range(chunks - warmup):
        yield f"{rank}F{warmup + microbatch}"
        yield f"{rank}B{microbatch}"
    for microbatch in range(chunks - warmup, chunks):
        yield Action(rank, Kind.B, microbatch)
