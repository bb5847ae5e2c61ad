"""Codes about numbers: what a schedule computes, against the model in one process."""

from harness.codes.code import Code

_ALL = ("sim", "gloo", "nccl")

CODES = (
    Code(
        name="init-mismatch",
        summary="a stage's first parameters differ from the monolith's",
        meaning="""
The same seed gives another initial value on this stage than in the whole model built in one
process.
""",
        why="""
The pipeline trains another model. Skipping random state by a count of draws is the usual cause: an
initialisation does not consume the count that one thinks.
""",
        example="""
torch.manual_seed(42)
for _ in range(rank * layers_per_stage * 2):
    torch.rand(1)
""",
        instead="""
torch.manual_seed(42)
model = build_whole_model()
stage = model[first:last]  # then keep the slice
""",
        fix="Build the whole seeded model on every rank, and keep a slice of it.",
        backends=_ALL,
    ),
    Code(
        name="layer-mismatch",
        summary="layers are lost or doubled by the split",
        meaning="The stages together do not hold each of the model's layers exactly once.",
        why="""
The pipeline trains a smaller or larger model, without an error: 16 layers on 3 ranks by
16 // 3 each are 15.
""",
        example="""
per_stage = layers // count
mine = range(index * per_stage, (index + 1) * per_stage)
""",
        instead="""
base, extra = divmod(layers, count)
first = index * base + min(index, extra)
mine = range(first, first + base + (index < extra))
""",
        fix="Spread the remainder over the first stages.",
        backends=_ALL,
    ),
    Code(
        name="loss-mismatch",
        summary="the step's loss differs from the monolith's",
        meaning="""
The mean loss that the step returned is not that of the whole batch in one process, beyond what
rounding explains.
""",
        why="""
What is reported is not what is trained, or what is trained is not the model. Microbatches of
unequal size have to be weighted by their size.
""",
        example="""
return sum(losses) / chunks  # microbatches of 3, 3 and 2 samples
""",
        instead="""
return sum(loss * n for loss, n in zip(losses, sizes)) / sum(sizes)
""",
        fix="Weight each microbatch's mean loss by its share of the batch.",
        backends=_ALL,
    ),
    Code(
        name="gradient-mismatch",
        summary="gradients differ from the monolith's",
        meaning="""
A parameter's accumulated gradient is not that of the whole batch. The cause is found by solving
for it as a combination of the microbatches' own gradients: scale:k (a missing division by chunks
is scale:<chunks>), missing-microbatch:i, duplicate-microbatch:i, graph-cut:stage s,
stale-accumulation, permuted-targets; stale-batch, where a step computed with inputs or targets of
an earlier one; tied-not-summed, where the copies of a tied parameter of a model of your own have
not the sum of all stages' parts; uneven-microbatches, where a schedule class of torch weighs
microbatches of different sizes alike; or unknown.
""",
        why="""
Adam hides a scaled gradient, and a loss that falls hides much else: on a small model the curves
can agree to two digits while the gradients are four times too large.
""",
        example="""
loss = stage(x, targets)
loss.backward()
""",
        instead="""
loss = stage(x, targets) * len(targets) / batch.size  # 1 / chunks where sizes are equal
loss.backward()
""",
        fix="""
scale: weight each microbatch's loss by its share before backward. graph-cut: set requires_grad_()
on a received activation, and send its .grad back. missing or duplicate: look at the loop's bounds.
stale-accumulation: let gradients start at None each step. stale-batch: take the data from the batch
that the step is given. tied-not-summed: sum the gradient over
the ranks that hold the parameter.
""",
        backends=_ALL,
    ),
    Code(
        name="parameter-mismatch",
        summary="parameters after the optimizer's step differ from the monolith's",
        meaning="""
Gradients agreed, and yet the parameters after the step do not; or they part at a later step.
""",
        why="The step changes parameters or the state of their gradients by itself.",
        example="""
def step(stage, comms, batch, chunks):
    …
    for p in stage.parameters():
        p.data -= 0.01 * p.grad  # the harness steps as well
""",
        instead="""
def step(stage, comms, batch, chunks):
    …  # only accumulate gradients; the harness owns the optimizer
""",
        fix="Leave parameters alone in the step, and do not keep references to old gradients.",
        backends=_ALL,
    ),
)
