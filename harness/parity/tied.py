"""Gradients of a parameter that several stages hold: of which stages' parts they are made.

The step adds them up over the ranks, so that every copy has the whole gradient. What a rank really
has is solved for as a combination of what each rank's stages add to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from harness.parity import bounds
from harness.parity.causes import SLACK, SURE, fit, number
from harness.parity.oracle import Difference, Step, step_stage
from harness.parity.reference import one_thread, samples
from pipeline.model import loss_weight
from pipeline.own_model import OwnModel


@dataclass(frozen=True, slots=True)
class Tied:
    """What a wrong copy of a tied parameter has."""

    copies: tuple[int, ...]
    """All places of the parameter among the chain's."""
    wrong: tuple[int, ...]
    """Those whose gradient is not the whole one; the first is what the rest is told of."""
    ranks: tuple[int, ...]
    """That hold it."""
    coefficients: tuple[float, ...]
    """How much there is of each one's part."""
    told: str


def ties(model: OwnModel) -> list[tuple[int, ...]]:
    """Return the places of each parameter that stands among the chain's more than once."""
    places: dict[int, list[int]] = {}
    for place, parameter in enumerate(model.parameters()):
        places.setdefault(id(parameter), []).append(place)
    return [tuple(found) for found in places.values() if len(found) > 1]


def explain(difference: Difference) -> Tied | None:
    """Say what a tied parameter's gradient is made of; None where others are wrong as well."""
    step, bound = difference.evidence, difference.bound
    if step is None or bound is None or difference.within_tolerance:
        return None
    model = step.reference.model
    if not isinstance(model, OwnModel) or len(step.lasts) > 1:
        return None
    scale = bounds.scales(step.columns, step.sizes)
    apart = step.observed.double() - step.right.double()
    outside = ~(bounds.relative(apart, scale, step.sizes) <= bound.gradient)
    wrong = set(outside.nonzero().reshape(-1).tolist())
    tied = ties(model)
    if not wrong or not wrong <= {place for copies in tied for place in copies}:
        return None
    copies = next(copies for copies in tied if wrong & set(copies))
    return _of(step, difference, copies, tuple(sorted(wrong & set(copies))), bound.norm)


def _of(
    step: Step,
    difference: Difference,
    copies: tuple[int, ...],
    wrong: tuple[int, ...],
    noise: float,
) -> Tied | None:
    rank_of = {place: difference.chain[step_stage(step, place)].rank for place in copies}
    ranks = tuple(sorted(set(rank_of.values())))
    spans = _spans(step.sizes)
    parts = _parts(step)
    of_ranks = torch.stack(
        [
            torch.stack([parts[spans[p]] for p in copies if rank_of[p] == rank]).sum(dim=0)
            for rank in ranks
        ]
    )
    observed = step.observed[spans[wrong[0]]].double()
    solved = fit(observed, of_ranks, noise)
    if solved is None or solved.residual > SLACK * noise:
        return None
    if not bool((solved.uncertainty <= SURE).all()):
        return None
    unsure = float(solved.uncertainty.max())
    shown = [number(float(c), unsure) for c in solved.coefficients]
    own = rank_of[wrong[0]]
    if all(text == ("1" if rank == own else "0") for text, rank in zip(shown, ranks, strict=True)):
        told = "it is its own stage's part alone"
    elif len(set(shown)) == 1:
        told = f"it is {shown[0]} times the sum of all parts"
    else:
        counted = [f"{n} times rank {r}'s" for n, r in zip(shown, ranks, strict=True)]
        told = f"it is {' and '.join(counted)} part, and not 1 each"
    coefficients = tuple(round(float(c), 6) for c in solved.coefficients)
    return Tied(copies, wrong, ranks, coefficients, told)


def _parts(step: Step) -> Tensor:
    """Return what each stage alone adds to the gradient of its copy, (values,), in float64."""
    model = step.reference.model
    assert isinstance(model, OwnModel)
    apart = model.untied()
    parameters = apart.parameters()
    batch = step.reference.workload.batch
    with one_thread():
        total = torch.zeros(sum(step.sizes), dtype=torch.float64)
        for rows in step.partition.rows:
            loss = apart.loss_of(samples(rows))
            weight = loss_weight(loss, len(rows), batch)
            total += apart.gradient(loss, weight, parameters).double()
    return total


def _spans(sizes: list[int]) -> list[slice]:
    ends = torch.tensor([0, *sizes]).cumsum(0).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]
