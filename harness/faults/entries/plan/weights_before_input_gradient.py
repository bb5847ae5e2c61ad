"""The weights' gradient comes before the input's.

Does: A plan splits the backward and yields W, the weights' part, before I, the input's.

Wrong: W uses what I leaves behind; and the rank before waits for I only, which is why it is to come
first.

Shows: Before anything runs: W comes before what it needs.

Instead: I, then W any time later; or, as here, B, which does both at once.
"""

LABEL = {
    "class": "plan",
    "scope": "plan",
    "source": "zero-bubble#72",
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
        yield f"{rank}W{microbatch}"  # fault
        yield f"{rank}I{microbatch}"


def correct(rank, world_size, chunks):
    for microbatch in range(chunks):
        yield f"{rank}F{microbatch}"
    for microbatch in range(chunks):
        yield f"{rank}B{microbatch}"
