"""Codes about collectives."""

from harness.codes.code import Code

CODES = (
    Code(
        name="collective-mismatch",
        summary="ranks met in collectives that disagree",
        meaning="""
The n-th collective of a group is not the same on all its ranks: another kind, element count,
dtype, reduce op or root.
""",
        why="""
Collectives are matched by count alone. Disagreement in the reduce op, or two all_reduces of one
size in swapped order, give silent wrong sums; other kinds or roots hang; other sizes abort the
process on gloo.
""",
        example="""
if rank == 0:
    dist.all_reduce(loss)
else:
    dist.broadcast(loss, src=0)
""",
        instead="""
dist.all_reduce(loss)
""",
        fix="Call the same collectives in the same order, with the same arguments, on every rank.",
        backends=("sim", "gloo", "nccl"),
    ),
    Code(
        name="collective-skew",
        severity="warning",
        summary="the same collective, paired across different places in the code",
        meaning="""
Ranks met in one collective from different lines, and each of these lines is executed by both: one
rank is a collective ahead of the other. The calls agree in kind, size and dtype, so nothing fails.
""",
        why="""
Each rank adds up other things than it means to. A rank that runs one more all_reduce in a loop
pairs its loss with another's gradient norm.
""",
        example="""
if rank == 0:
    dist.all_reduce(warmup_loss)
dist.all_reduce(loss)  # rank 1's first meets rank 0's warmup_loss
dist.all_reduce(grad_norm)
""",
        instead="""
dist.all_reduce(warmup_loss)  # on every rank
dist.all_reduce(loss)
dist.all_reduce(grad_norm)
""",
        fix="""
Move the collective that only some ranks call out of its branch. A leader and its followers that
meet from different lines on purpose are not reported.
""",
        backends=("sim", "gloo", "nccl"),
    ),
)
