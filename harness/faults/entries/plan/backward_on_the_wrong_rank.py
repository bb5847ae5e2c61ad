"""The backwards are placed by another rule than the forwards.

Does: A GPipe plan runs each stage's forwards on the rank of its number. For the backwards it counts
the ranks from the end, as a V-shaped placement does.

Wrong: A stage's graph and its parameters are on the rank that ran its forward.

Shows: Before anything runs: the action is on the wrong rank. Right with one stage, and with three
for the one in the middle.

Instead: Ask one function for the stages of a rank, everywhere.
"""

LABEL = {
    "class": "plan",
    "scope": "plan",
    "source": "torchtitan#774 (a V-shaped schedule run with looped placement)",
    "world": 2,
    "chunks": 1,
    "code": "plan-invalid",
    "ranks": [0, 1],
    "options": {"cases": 2},
}


def faulty(rank, world_size, chunks):
    for microbatch in range(chunks):
        yield f"{rank}F{microbatch}"
    stage = world_size - 1 - rank  # fault
    for microbatch in range(chunks):
        yield f"{stage}B{microbatch}"  # fault: here


def correct(rank, world_size, chunks):
    for microbatch in range(chunks):
        yield f"{rank}F{microbatch}"
    stage = rank
    for microbatch in range(chunks):
        yield f"{stage}B{microbatch}"
