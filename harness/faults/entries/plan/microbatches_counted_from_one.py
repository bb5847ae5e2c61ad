"""Microbatches are counted from 1.

Does: A GPipe plan numbers its microbatches from 1 to chunks.

Wrong: They are numbered from 0: the last does not exist, and the first is never run.

Shows: Before anything runs: one action too far out for every loop.

Instead: range(chunks).
"""

LABEL = {
    "class": "plan",
    "scope": "plan",
    "source": "torch's own plan validation accepts microbatches out of range",
    "world": 1,
    "chunks": 1,
    "code": "plan-invalid",
    "ranks": [0],
    "options": {"cases": 2},
}


def faulty(rank, world_size, chunks):
    microbatches = range(1, chunks + 1)
    for microbatch in microbatches:
        yield f"{rank}F{microbatch}"  # fault
    for microbatch in microbatches:
        yield f"{rank}B{microbatch}"  # fault


def correct(rank, world_size, chunks):
    microbatches = range(chunks)
    for microbatch in microbatches:
        yield f"{rank}F{microbatch}"
    for microbatch in microbatches:
        yield f"{rank}B{microbatch}"
