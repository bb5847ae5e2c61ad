"""How far rounding alone may part a right gradient from the reference's.

In float64 that is fixed, relative 1e-12; of a user's own model, which may compute in something
coarser in between, at least that. In lower precision it is measured, not chosen: the
reference is perturbed by one rounding of every parameter and input, added up in other orders,
run as one whole batch, and compared with itself in float64. The largest difference of all these,
times a margin, is the bound.

The differences of all parameters are pooled, because a bias of two values says little about its
own worst case. The margin is 8: of 4 000 right runs (both workloads, float32 and bfloat16, 2 to
12 microbatches, uneven ones too, random orders and four ways of weighting, before and after an
update) the farthest reached 2.3 times the largest difference, so that 8 leaves a factor of three
and more; in float32 the smallest fault looked for, one percent of the gradient, lay at least 57
times beyond it. In bfloat16 one percent is within rounding, and cannot be told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.parity.reference import Columns, Reference

FLOAT64 = 1e-12
MARGIN = 8.0
DRAWS = 3


@dataclass(frozen=True)
class Bound:
    """Largest difference allowed, per parameter and for the loss; relative to the scales."""

    gradient: Tensor
    """(parameters,)."""
    loss: float
    norm: float
    """Of the whole gradient: ‖difference‖ over the sum of the columns' norms."""


def scales(columns: Columns, sizes: Sequence[int]) -> Tensor:
    """Return, per parameter, the largest sum of its columns' magnitudes.

    Not the gradient's own size: where microbatches cancel, rounding is that of the terms.
    """
    total = columns.gradients.double().abs().sum(dim=0)
    return largest(total, sizes)


def largest(values: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the largest magnitude of each parameter's part of ``values``."""
    return torch.stack([part.double().abs().max() for part in values.split(list(sizes))])


def relative(difference: Tensor, scale: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return each parameter's largest difference over its scale; 0 where both are 0."""
    found = largest(difference, sizes)
    return torch.where(found == 0, found, found / scale)


def measure(reference: Reference, columns: Columns, order: Sequence[int]) -> Bound:
    """Return the bound at the reference's parameters, for sums over ``columns``."""
    sizes, workload = reference.sizes, reference.workload
    least = FLOAT64 if workload.dtype == torch.float64 else 0.0
    if least and workload.rounds_as_its_dtype:
        return Bound(torch.full((len(sizes),), FLOAT64, dtype=torch.float64), FLOAT64, FLOAT64)
    base = columns.accumulated(order).double()
    loss = float(columns.loss(order))
    scale = scales(columns, sizes)
    others = list(_perturbed(reference, columns, order))
    differences = torch.stack([relative(g - base, scale, sizes) for _, g in others])
    differences[~torch.isfinite(differences)] = 0  # nothing expected there, and exactly nothing
    norm = columns.gradients.double().norm(dim=1).sum()
    rounding = torch.finfo(workload.dtype).eps  # of the sum itself
    apart = [abs(value - loss) / max(1.0, abs(loss)) for value, _ in others]
    return Bound(
        gradient=(MARGIN * differences.max().clamp(min=rounding))
        .clamp(min=least)
        .expand(len(sizes)),
        loss=max(least, MARGIN * max(rounding, *apart)),
        norm=max(
            least, MARGIN * max(rounding, *(float((g - base).norm() / norm) for _, g in others))
        ),
    )


def _perturbed(
    reference: Reference, columns: Columns, order: Sequence[int]
) -> list[tuple[float, Tensor]]:
    """Give (loss, gradient) of references that are equally right."""
    found: list[tuple[float, Tensor]] = []
    generator = torch.Generator().manual_seed(reference.workload.seed)

    def keep(loss: Tensor, gradient: Tensor) -> None:
        found.append((float(loss), gradient.double()))

    for other in (list(reversed(order)), sorted(order)):
        keep(columns.loss(other), columns.accumulated(other))
    keep(*reference.whole())
    if reference.workload.runs_in_float64:
        keep(*reference.copy(torch.float64).whole())
    for _ in range(DRAWS):
        perturbed = _near(reference, generator).columns(columns.rows)
        keep(perturbed.loss(order), perturbed.accumulated(order))
    return found


@torch.no_grad()
def _near(reference: Reference, generator: torch.Generator) -> Reference:
    """Copy a reference, every value moved by at most one rounding."""
    dtype = reference.workload.dtype
    copy = reference.copy(dtype)
    epsilon = torch.finfo(dtype).eps
    # A parameter that several stages hold is one.
    for values in (*copy.model.floating_inputs(), *dict.fromkeys(copy.parameters)):
        sign = torch.randint(0, 3, values.shape, generator=generator) - 1
        values.copy_(values.double() * (1 + epsilon * sign.double()))
    return copy
