"""A microbatch has a full backward and the half of one.

Does: A plan runs B for every microbatch, and fills its idle time with the W's.

Wrong: B contains W: the weights' gradient is added twice, or W finds nothing left.

Shows: Before anything runs: W is done already by B.

Instead: I and W, or B.
"""

LABEL = {
    "class": "plan",
    "scope": "plan",
    "source": "pytorch#139415 (mixed B and I/W); pytorch#180952",
    "world": 1,
    "chunks": 1,
    "code": "plan-invalid",
    "ranks": [0],
    "options": {"cases": 2},
}


def faulty(rank, world_size, chunks):
    for microbatch in range(chunks):
        yield f"{rank}F{microbatch}"
    for microbatch in range(chunks):
        yield f"{rank}B{microbatch}"
        yield f"{rank}W{microbatch}"  # fault


def correct(rank, world_size, chunks):
    for microbatch in range(chunks):
        yield f"{rank}F{microbatch}"
    for microbatch in range(chunks):
        yield f"{rank}B{microbatch}"
