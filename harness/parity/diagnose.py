"""From a wrong gradient to its cause, over all stages that differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations

import torch
from torch import Tensor

from harness.parity.causes import Claim, explain
from harness.parity.oracle import Difference, Step

SMALL = 4  # of so few microbatches every permutation is tried
ROUNDED = 16.0  # roundings of one value, at most, that the whole gradient may show


def diagnose(difference: Difference) -> tuple[Claim, int]:
    """Return the cause and the stage where it began: of those that differ, the nearest to the loss.

    Errors flow from the loss down, so that what the lower stages show is at most what that one
    shows.
    """
    step = difference.evidence
    assert step is not None
    assert difference.bound is not None
    culprit = max(difference.stages)
    if (stale := stale_batch(difference)) is not None:
        return stale
    if not bool(torch.isfinite(step.observed).all()):
        return Claim(note="the gradient has values that are not finite"), _not_finite(step)
    if (cut := _cut(step)) is not None:
        if _is_idle(step, cut):
            every = ",".join(map(str, range(len(step.partition.rows))))
            return Claim(f"missing-microbatch:{every}"), culprit
        # Its own graph was never gone through, or the next stage gave it nothing to go with.
        begun = cut if not step.records[cut].backwards else min(cut + 1, len(step.spans) - 1)
        return Claim(f"graph-cut:stage {cut}"), begun
    if difference.left_out:
        return Claim(f"missing-microbatch:{','.join(map(str, difference.left_out))}"), culprit
    together = _solve(step, difference, difference.stages)
    if together.cause != "unknown":
        return together, culprit
    alone = [_solve(step, difference, (stage,)) for stage in reversed(difference.stages)]
    claim = alone[0] if alone[0].cause != "unknown" or not together.note else together
    if claim.cause == "unknown" and (note := _rounded(step)):
        claim = replace(claim, note=note)
    return claim, culprit


def stale_batch(difference: Difference) -> tuple[Claim, int] | None:
    """Return the claim that an earlier step's data were used, and the stage that was given them."""
    step, earlier = difference.evidence, difference.earlier
    if step is None:
        return None
    if step.records[0].stale:
        which = min(step.records[0].stale)
        return Claim("stale-batch", note=f"the samples that went in are those of step {which}"), 0
    if not earlier or (given := _as_given(step, own := _own_targets(step))) is None:
        return None
    if all(map(torch.equal, given, own)):
        return None
    for old in earlier:
        its = [old.reference.model.targets[list(chosen)] for chosen in step.partition.rows]
        if all(map(torch.equal, given, its)):
            note = f"the targets are those of step {old.number}"
            return Claim("stale-batch", note=note), len(step.spans) - 1
    return None


def _own_targets(step: Step) -> list[Tensor]:
    """Return the targets of each microbatch's samples."""
    return [step.reference.model.targets[list(chosen)] for chosen in step.partition.rows]


def _rounded(step: Step) -> str:
    """Say whether the gradient is as near to the right one as lower precision would leave it."""
    if step.observed.dtype != torch.float64:
        return ""
    whole = float(step.columns.gradients.norm(dim=1).sum())
    apart = float((step.observed - step.right).norm()) / whole
    if apart > ROUNDED * torch.finfo(torch.float32).eps:
        return ""
    return (
        f"it is {apart:.0e} of itself away, no more than rounding to float32 would leave: look for "
        "a .float(), or a tensor made without dtype"
    )


def _solve(step: Step, difference: Difference, stages: Sequence[int]) -> Claim:
    """Explain the part of the gradient that some stages hold."""
    assert difference.bound is not None

    def held(values: Tensor) -> Tensor:
        return torch.cat([values[..., step.spans[stage]] for stage in stages], dim=-1).double()

    columns = held(step.columns.gradients)
    earlier = []
    for old in reversed(difference.earlier):
        earlier += [held(old.observed)[None], held(old.columns.gradients)]
    shares = [len(rows) / step.reference.workload.batch for rows in step.partition.rows]
    return explain(
        held(step.observed),
        columns,
        difference.bound.norm,
        shares=shares,
        earlier=earlier,
        permuted=(held(sum_) for sum_ in _permuted(step)),
    )


def _cut(step: Step) -> int | None:
    """Return the highest stage from which down there is no gradient, where all above have one."""
    empty = [not bool(step.observed[span].any()) for span in step.spans]
    expected = [bool(step.right[span].any()) for span in step.spans]
    cut = -1
    while cut + 1 < len(empty) and empty[cut + 1]:
        cut += 1
    if cut < 0 or any(empty[cut + 1 :]) or not all(expected[: cut + 1]):
        return None
    return cut


def _is_idle(step: Step, cut: int) -> bool:
    """Whether there is no gradient for want of any forward, or of any backward of the loss."""
    records = step.records
    return not records[cut].forwards or (cut + 1 == len(records) and not records[cut].backwards)


def _not_finite(step: Step) -> int:
    bad = [r for r, span in enumerate(step.spans) if not torch.isfinite(step.observed[span]).all()]
    return max(bad)


def _permuted(step: Step) -> Iterator[Tensor]:
    """Give the gradients that the batch would have with its targets in another order.

    First with the targets as the last stage was really given them, then with likely orders.
    """
    reference, rows = step.reference, step.partition.rows
    targets = reference.model.targets
    own = _own_targets(step)
    given = _as_given(step, own)
    if given is not None and not all(map(torch.equal, given, own)):
        yield reference.columns(rows, given).gradients.sum(dim=0)
    turned = targets.flip(0)
    yield reference.columns(rows, [turned[list(r)] for r in rows]).gradients.sum(dim=0)
    if len({len(r) for r in rows}) > 1:
        return
    count = len(rows)
    cache: dict[tuple[int, int], Tensor] = {}

    def part(place: int, source: int) -> Tensor:
        key = (place, source)
        if key not in cache:
            cache[key] = reference.columns([rows[place]], [own[source]]).gradients[0]
        return cache[key]

    for order in _orders(count):
        if order != tuple(range(count)):
            yield torch.stack([part(k, source) for k, source in enumerate(order)]).sum(dim=0)


def _orders(count: int) -> Iterator[tuple[int, ...]]:
    if count <= SMALL:
        yield from permutations(range(count))
        return
    straight = tuple(range(count))
    yield straight[::-1]
    for shift in range(1, count):
        yield straight[shift:] + straight[:shift]


def _as_given(step: Step, own: Sequence[Tensor]) -> list[Tensor] | None:
    """Return the targets that each microbatch met on a last stage, None where not known."""
    known: dict[int | None, tuple[int, ...]] = {}
    for last in step.lasts:
        places = [step.partition.column_of.get(m) for m in last.forwards]
        known |= zip(places, last.aimed, strict=False)
    found: list[Tensor] = []
    for place, right in enumerate(own):
        if place not in known or len(known[place]) != right.numel():
            return None
        found.append(torch.tensor(known[place], dtype=right.dtype).view_as(right))
    return found
