"""Wrong gradients that only a user's own model can have: of tied parameters, of several inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.checkers import sites
from harness.checkers.phrases import join, ranks_text
from harness.findings import Finding
from harness.parity.oracle import Difference, Step
from harness.parity.results import StageResult
from harness.parity.tied import Tied
from harness.worlds import Outcome

TIED = "tied-not-summed"


def names_of(chain: Sequence[StageResult]) -> list[str]:
    """Name each parameter of a chain by its stage."""
    return [
        f"stage {stage.number} {name.removeprefix('units.0.') if stage.built_at else name}"
        for stage in chain
        for name, _ in stage.layout
    ]


def not_summed(
    difference: Difference, tied: Tied, outcome: Outcome, details: dict[str, Any]
) -> Finding:
    """Make a finding of a tied parameter whose copies have not the whole gradient."""
    names = names_of(difference.chain)
    holders = [stage for stage in difference.chain for _ in stage.layout]
    wrong = {holders[place].number: holders[place] for place in tied.wrong}
    ranks = tuple(sorted({stage.rank for stage in wrong.values()}))
    first, others = tied.wrong[0], [names[c] for c in tied.copies if c != tied.wrong[0]]
    of_each = dict(zip(map(str, tied.ranks), tied.coefficients, strict=True))
    return Finding(
        "gradient-mismatch",
        f"the gradient of step {difference.step} on {ranks_text(ranks)} is not the model's in "
        f"{names[first]}, which is tied to {join(others)}: {tied.told}",
        f"sum a tied parameter's gradient, once, over {ranks_text(tied.ranks)}, which hold it, "
        "after the last backward and before the step returns, as by dist.all_reduce(p.grad, "
        "group=…); every copy needs the whole sum",
        ranks=ranks,
        operations=sites.computed(outcome, wrong.values(), "B"),
        cause=TIED,
        details=details
        | {
            "stage": holders[first].number,
            "parameter": names[first],
            "tied_to": others,
            "parts_of_ranks": of_each,
        },
    )


def unlike_inputs(step: Step) -> tuple[str, str] | None:
    """Say which of several inputs the first stage was not given as the batch has them."""
    unlike = step.records[0].unlike
    if not unlike:
        return None
    which = join([f"input {place}" for place in unlike])
    return (
        f"{which} of the first stage's forward was not the batch's own for these samples",
        "give the first stage all of batch.inputs, each cut alike: stage(*(x[start:end] for x in "
        "batch.inputs))",
    )
