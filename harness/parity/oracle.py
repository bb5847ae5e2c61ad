"""The ladder of oracles: which numbers of which step and rank differ from the monolith's.

Each step is compared at the parameters that the ranks really had before it, so that one step's
fault is not blamed on the next: the gradient with the reference's at those parameters, and the
parameters after the update with what the optimizer makes of the gradients that the ranks had.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from harness.parity import bounds
from harness.parity.bounds import Bound
from harness.parity.reference import Columns, Reference, step_at
from harness.parity.results import StepRecord, StepResult, unpack
from harness.parity.rows import Partition, partition
from harness.parity.shadow import Shadow
from pipeline.model import Workload


@dataclass(frozen=True)
class Step:
    """One step's evidence: what the reference computes, and what the ranks had."""

    number: int
    reference: Reference
    columns: Columns
    partition: Partition
    order: tuple[int, ...]  # of the last stage's backwards, as places in the partition
    right: Tensor  # (values,): the gradient, accumulated in each rank's own order
    observed: Tensor  # (values,): over all ranks, in order
    spans: tuple[slice, ...]  # per rank, its part of the values
    absent: frozenset[int]  # parameters without any gradient
    backwards: tuple[tuple[int, ...], ...] = ()  # per rank, places in the partition

    @property
    def sizes(self) -> list[int]:
        """How many values each parameter has."""
        return self.reference.sizes


@dataclass(frozen=True)
class Difference:
    """The first thing that differs: in which step, on which ranks, by how much."""

    what: Literal["loss", "gradient", "parameter"]
    step: int
    ranks: tuple[int, ...]
    parameter: int = 0  # on the lowest stage that differs, the first one
    error: float = 0.0  # the largest, relative
    expected: float = math.nan
    got: float = math.nan
    within_tolerance: bool = False  # only not bitwise
    left_out: tuple[int, ...] = ()  # microbatches without which the gradient is so, bit for bit
    bound: Bound | None = None
    evidence: Step | None = None
    earlier: tuple[Step, ...] = ()


@dataclass
class Verdict:
    """What the comparison of one case says."""

    bitwise: bool = True
    losses: int = 0  # how many were returned, and compared
    difference: Difference | None = None
    steps: list[Step] = field(default_factory=list)

    @property
    def compared(self) -> bool:
        """Whether any step could be: none is where the monolith's own gradient is not finite."""
        return bool(self.steps) or self.difference is not None


def compare(
    workload: Workload, chunks: int, results: Sequence[StepResult], *, exact: bool
) -> Verdict:
    """Compare every rank's steps with the monolith's; stops at the first step that differs.

    ``results`` are all ranks', in order, and their parameters start as the monolith's. ``exact``
    demands equal bits (the built-in schedules under our executor); without it, equal bits are
    only counted.
    """
    verdict = Verdict()
    dtype = workload.dtype
    spans = _spans(results)
    before = torch.cat([unpack(result.initial, dtype) for result in results])
    shadow = Shadow(workload, before)
    for number in range(min(len(result.steps) for result in results)):
        records = [result.steps[number] for result in results]
        step = _evidence(workload, chunks, number, before, records, results, spans)
        if not bool(torch.isfinite(step.columns.gradients).all()):
            return verdict  # the reference itself diverges: nothing can be said
        found = _numbers(step, records[-1].loss, verdict, exact)
        if found is None:
            after = torch.cat([unpack(record.parameters, dtype) for record in records])
            error = shadow.advance(step.observed, step.absent, after)
            found = _worst("parameter", step, error, shadow.bound)
            before = after
        if found is not None:
            verdict.difference = replace(found, evidence=step, earlier=tuple(verdict.steps))
            return verdict
        verdict.steps.append(step)
    return verdict


def _evidence(
    workload: Workload,
    chunks: int,
    number: int,
    before: Tensor,
    records: Sequence[StepRecord],
    results: Sequence[StepResult],
    spans: tuple[slice, ...],
) -> Step:
    cut = partition(workload.batch, chunks, records[0])
    reference, columns = step_at(workload, before, cut.rows)
    sums = {o: columns.accumulated(o) for o in {tuple(cut.order(r.backwards)) for r in records}}
    right = torch.cat(
        [
            sums[tuple(cut.order(record.backwards))][span]
            for record, span in zip(records, spans, strict=True)
        ]
    )
    absent, first = set(), 0
    for record, result in zip(records, results, strict=True):
        absent |= {first + place for place in record.absent}
        first += len(result.layout)
    observed = torch.cat([unpack(record.gradient, workload.dtype) for record in records])
    order = tuple(cut.order(records[-1].backwards))
    return Step(
        *(number, reference, columns, cut, order, right, observed, spans, frozenset(absent)),
        tuple(cut.seen(record.backwards) for record in records),
    )


def _numbers(step: Step, loss: float | None, verdict: Verdict, exact: bool) -> Difference | None:
    """Compare a step's gradient, then its loss."""
    same = torch.equal(step.right, step.observed)
    same_loss = loss is None or float(step.columns.loss(step.order)) == loss
    verdict.losses += loss is not None
    if same and same_loss:
        return None
    verdict.bitwise = False
    bound = bounds.measure(step.reference, step.columns, step.order)
    if not same and (found := _gradient(step, bound)) is not None:
        return found
    if not same and (found := _left_out(step)) is not None:
        return replace(found, bound=bound)
    if loss is not None and (lost := _loss(step, bound, loss)) is not None:
        return lost
    if not exact:
        return None
    if same:
        assert loss is not None
        expected = float(step.columns.loss(step.order))
        last = len(step.spans) - 1
        return Difference("loss", step.number, (last,), 0, 0.0, expected, loss, True, bound=bound)
    error = _errors(step, step.right)
    found = _worst("gradient", step, error, torch.zeros_like(error))
    assert found is not None
    return replace(found, within_tolerance=True, bound=bound)


def _left_out(step: Step) -> Difference | None:
    """Return the difference where ranks went backward through some of the microbatches only.

    That they left others out may stay within the bound of a low precision. It is certain where
    what they have is, bit for bit, the sum of those that they did.
    """
    everything = set(range(len(step.partition.rows)))
    ranks, missing = [], set[int]()
    for rank, (places, span) in enumerate(zip(step.backwards, step.spans, strict=True)):
        left = everything - set(places)
        if not left or not places or len(set(places)) < len(places):
            continue
        observed = step.observed[span]
        if torch.equal(observed, step.right[span]):
            continue
        if torch.equal(observed, step.columns.accumulated(places)[span]):
            ranks.append(rank)
            missing |= left
    if not ranks:
        return None
    error = _errors(step, step.right)
    first = next(p for p in range(len(step.sizes)) if step_rank(step, p) == ranks[0])
    worst = float(error.max())
    left_out = tuple(sorted(missing))
    return Difference("gradient", step.number, tuple(ranks), first, worst, left_out=left_out)


def _gradient(step: Step, bound: Bound) -> Difference | None:
    """Compare with the whole batch in float64, else with the same microbatches."""
    right = step.right
    if step.reference.workload.dtype == torch.float64:
        right = step.reference.whole()[1]
    found = _worst("gradient", step, _errors(step, right), bound.gradient)
    return None if found is None else replace(found, bound=bound)


def _errors(step: Step, right: Tensor) -> Tensor:
    scale = bounds.scales(step.columns, step.sizes)
    difference = step.observed.double() - right.double()
    return bounds.relative(difference, scale, step.sizes)


def _loss(step: Step, bound: Bound, got: float) -> Difference | None:
    expected = float(step.columns.loss(step.order))
    error = abs(got - expected) / max(1.0, abs(expected))
    if error <= bound.loss:
        return None
    last = len(step.spans) - 1
    return Difference("loss", step.number, (last,), 0, error, expected, got, bound=bound)


def _worst(
    what: Literal["gradient", "parameter"], step: Step, error: Tensor, bound: Tensor
) -> Difference | None:
    """Find where the errors (parameters,) exceed the bound; one that is no number does."""
    outside = ~(error <= bound)
    if not bool(outside.any()):
        return None
    ranks = sorted({step_rank(step, int(place)) for place in outside.nonzero().reshape(-1)})
    worst = error[outside].max() if bool(torch.isfinite(error).all()) else torch.tensor(math.inf)
    first = int(outside.nonzero()[0])
    return Difference(what, step.number, tuple(ranks), first, float(worst))


def step_rank(step: Step, parameter: int) -> int:
    """Return the rank that holds one of the monolith's parameters."""
    start = sum(step.sizes[:parameter])
    for rank, span in enumerate(step.spans):
        if span.start <= start < span.stop:
            return rank
    raise AssertionError(f"parameter {parameter} is on no rank")


def _spans(results: Sequence[StepResult]) -> tuple[slice, ...]:
    spans, start = [], 0
    for result in results:
        spans.append(slice(start, start + result.size))
        start += result.size
    return tuple(spans)
