"""Of a split backward only the input's half is there.

Does: A plan runs I as soon as the gradient comes, so that the rank before gets on, and leaves W for
later.

Wrong: Later never comes: no loop yields the W's.

Shows: Before anything runs: half of a backward is missing. Run as it is, everything would flow, and
no weight would have a gradient.

Instead: Yield each W once, or B in place of both.
"""

LABEL = {
    "class": "plan",
    "scope": "plan",
    "source": "zero-bubble#72; pytorch#139415",
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
        yield f"{rank}I{microbatch}"  # fault: and no W


def correct(rank, world_size, chunks):
    for microbatch in range(chunks):
        yield f"{rank}F{microbatch}"
    for microbatch in range(chunks):
        yield f"{rank}B{microbatch}"
