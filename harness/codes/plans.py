"""Codes about plans: what a schedule orders, before or while it runs."""

from harness.codes.code import Code

CODES = (
    Code(
        name="plan-invalid",
        summary="the plan cannot be right: an action missing, doubled or before its cause",
        meaning="""
A plan's actions are checked before anything runs. One comes twice, is missing, is out of range,
comes before what it needs, stands on the wrong rank, or a send has no receive.
""",
        why="A backward that is missing is a silent loss of gradient; a receive that is, a hang.",
        example="""
def plan(rank, world_size, chunks):
    for microbatch in range(chunks):
        yield f"{rank}B{microbatch}"  # backward before its forward
        yield f"{rank}F{microbatch}"
""",
        instead="""
def plan(rank, world_size, chunks):
    for microbatch in range(chunks):
        yield f"{rank}F{microbatch}"
    for microbatch in range(chunks):
        yield f"{rank}B{microbatch}"
""",
        fix="Yield each stage's forward and backward of every microbatch once, causes first.",
        backends=("sim", "gloo", "nccl"),
    ),
    Code(
        name="memory-bound",
        summary="more activations in flight than the schedule promises",
        meaning="""
A rank holds more microbatches whose forward is done and whose backward is not than its schedule
allows: for 1F1B that is min(chunks, world_size - rank). A built-in schedule promises its bound; a
step or plan of your own promises one by `step.promises = "1f1b"` in its file, and none without.
""",
        why="""
The bound is what 1F1B is chosen for. Without it memory grows with chunks, and the job fails when
chunks are raised.
""",
        example="""
warmup = chunks  # this is GPipe
""",
        instead="""
warmup = min(chunks, world_size - rank - 1)
""",
        fix="Clamp the warmup, and start a backward as soon as the bound is reached.",
        backends=("sim", "gloo", "nccl"),
    ),
)
