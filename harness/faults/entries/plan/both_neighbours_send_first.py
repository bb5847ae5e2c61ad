"""In the steady state both neighbours send first.

Does: A 1F1B plan is run with blocking sends and receives, each where the plan has it.

Wrong: After its second forward rank 0 sends an activation while rank 1 sends a gradient. Each waits
for the other's receive.

Shows: Both hang from two microbatches on. Right with one, and wherever sends are buffered.

Instead: Send activations without waiting, or exchange both in one batch; GPipe has no such moment.
"""

LABEL = {
    "class": "plan",
    "scope": "plan",
    "source": "the course (1F1B with blocking sends); pytorch#126419, #172668",
    "world": 2,
    "chunks": 2,
    "code": "deadlock",
    "cause": "needs-buffering",
    "ranks": [0, 1],
    "semantics": {"buffered": None},
    "options": {"cases": 2, "policy": "blocking"},
}


def faulty(rank, world_size, chunks):
    warmup = min(chunks, world_size - rank - 1)
    for microbatch in range(warmup):
        yield f"{rank}F{microbatch}"
    for microbatch in range(chunks - warmup):
        yield f"{rank}F{warmup + microbatch}"  # fault: and sends its output
        yield f"{rank}B{microbatch}"  # fault: and sends its gradient
    for microbatch in range(chunks - warmup, chunks):
        yield f"{rank}B{microbatch}"


def correct(rank, world_size, chunks):
    warmup = chunks
    for microbatch in range(warmup):
        yield f"{rank}F{microbatch}"
    for microbatch in range(chunks - warmup):
        yield f"{rank}F{warmup + microbatch}"
        yield f"{rank}B{microbatch}"
    for microbatch in range(chunks - warmup, chunks):
        yield f"{rank}B{microbatch}"
