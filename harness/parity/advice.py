"""What to tell the user about each cause."""

from __future__ import annotations

from harness.checkers.phrases import join
from harness.parity.causes import Claim, number

CHECK_ALL = (
    "compare how this step feeds, weights and accumulates its microbatches with "
    "loss_i * size_i / batch.size, each backward once"
)


def help_for(claim: Claim, chunks: int, batch: int = 0) -> str:
    """Say what to do about a gradient with this cause; ``batch`` is its samples, if known."""
    if claim.kind == "scale":
        return _scale(claim.cause.partition(":")[2], chunks, batch)
    if claim.each is not None:
        return (
            f"{claim.note}: weight it by its share of the batch, (loss * size / batch.size)"
            ".backward(), or raise ValueError for a batch that chunks does not divide"
        )
    return _HELP.get(claim.kind, CHECK_ALL)


def _scale(factor: str, chunks: int, batch: int) -> str:
    if factor == str(chunks):
        return (
            "divide each microbatch's mean loss by chunks before its backward: "
            "(loss / chunks).backward(); dividing the printed loss alone changes no gradient"
        )
    if factor == number(1 / chunks, 0.0):
        return "divide by chunks once only: in the loss, in the step or in the loop around it"
    if factor == str(batch):
        return "weight by size / batch.size: without the division it is a sum over the samples"
    return (
        f"the whole gradient is {factor} times the batch's: look for a factor that is one too many"
    )


_HELP = {
    "missing-microbatch": (
        "each microbatch needs one backward whose gradient stays: look for a loop that ends early, "
        "samples never fed, a detached loss, and zero_grad or a new .grad between two microbatches"
    ),
    "duplicate-microbatch": (
        "each microbatch needs one backward: look for a loop that runs it again, or a gradient "
        "that is received once and used twice"
    ),
    "graph-cut": (
        "a received activation is a plain leaf: call x.requires_grad_() before stage(x), and send "
        "x.grad back after the backward; no detach() or no_grad() in between"
    ),
    "stale-accumulation": (
        "a step starts from no gradient: nothing of an earlier step may be kept in a buffer, "
        "a list or a graph that this step adds again"
    ),
    "stale-batch": (
        "every step has a batch of its own: take inputs and targets from the batch that the step "
        "is given, and keep nothing of it for the next"
    ),
    "permuted-targets": (
        "give each microbatch's activation its own targets: both in the order in which the "
        "microbatches arrive"
    ),
}
SEEN = {
    "missing-microbatch": "nothing of microbatch {} is in it",
    "duplicate-microbatch": "microbatch {} is in it twice",
    "scale": "it is {} times the batch's",
    "graph-cut": "there is none from {} down",
    "stale-accumulation": "an earlier step's gradient is in it",
    "permuted-targets": "it is that of other microbatches' targets",
}

SEVERAL = {
    "missing-microbatch": "nothing of microbatches {} is in it",
    "duplicate-microbatch": "microbatches {} are in it twice",
}


def seen_in(claim: Claim) -> str:
    """Say in half a sentence what the wrong gradient is; empty where nothing is shown."""
    told = claim.cause.partition(":")[2].split(",")
    text = SEVERAL.get(claim.kind, "") if len(told) > 1 else SEEN.get(claim.kind, "")
    return text.format(join(told))
