"""A backward stands in the plan twice.

Does: A GPipe plan runs all forwards, then all backwards; the loop over the backwards starts over at
the first when it is done.

Wrong: The second backward of a microbatch finds no graph, or adds its gradient again where the
graph was kept.

Shows: Before anything runs: the plan has the action twice.

Instead: Yield each backward once.
"""

LABEL = {
    "class": "plan",
    "scope": "plan",
    "source": "torch's own plan validation accepts duplicated actions; TrainVerify (duplicate)",
    "world": 1,
    "chunks": 1,
    "code": "plan-invalid",
    "ranks": [0],
    "options": {"cases": 2},
}


def faulty(rank, world_size, chunks):
    for microbatch in range(chunks):
        yield f"{rank}F{microbatch}"
    for index in range(chunks + 1):
        yield f"{rank}B{index % chunks}"  # fault


def correct(rank, world_size, chunks):
    for microbatch in range(chunks):
        yield f"{rank}F{microbatch}"
    for index in range(chunks):
        yield f"{rank}B{index % chunks}"
