"""The ladder of oracles: which numbers of which step and stage differ from the monolith's.

Each step is compared at the parameters that the stages really had before it, so that one step's
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
from harness.parity.results import Chain, StepRecord, StepResult, chains, unpack
from harness.parity.rows import Partition, partition
from harness.parity.shadow import Shadow
from pipeline.model import Training


@dataclass(frozen=True)
class Step:
    """One step's evidence: what the reference computes, and what the stages had.

    The values are those of one whole model, stage after stage: of one chain.
    """

    number: int
    reference: Reference
    columns: Columns
    partition: Partition
    orders: tuple[tuple[int, ...], ...]
    """Of each direction the places in the partition that its last stage did, in its order."""
    right: Tensor  # (values,): the gradient, accumulated in each stage's own order
    observed: Tensor  # (values,): over all stages, in order
    spans: tuple[slice, ...]  # per stage, its part of the values
    absent: frozenset[int]  # parameters without any gradient
    records: tuple[StepRecord, ...]  # per stage
    lasts: tuple[StepRecord, ...]  # of each direction
    backwards: tuple[tuple[int, ...], ...] = ()  # per stage, places in the partition

    @property
    def sizes(self) -> list[int]:
        """How many values each parameter has."""
        return self.reference.sizes

    @property
    def order(self) -> tuple[int, ...]:
        """The places of all microbatches, one direction's after the other's."""
        return tuple(place for order in self.orders for place in order)

    def loss(self) -> float:
        """Return the batch's mean loss, added up as the last stages do."""
        losses = [self.columns.loss(order) for order in self.orders]
        return float(sum(losses[1:], start=losses[0]))


@dataclass(frozen=True)
class Difference:
    """The first thing that differs: in which step, on which stages of a chain, by how much."""

    what: Literal["loss", "gradient", "parameter"]
    step: int
    stages: tuple[int, ...]
    parameter: int = 0  # on the lowest stage that differs, the first one
    error: float = 0.0  # the largest, relative
    expected: float = math.nan
    got: float = math.nan
    within_tolerance: bool = False  # only not bitwise
    left_out: tuple[int, ...] = ()  # microbatches without which the gradient is so, bit for bit
    bound: Bound | None = None
    evidence: Step | None = None
    earlier: tuple[Step, ...] = ()
    chain: Chain = ()
    """The stages that were compared."""
    chains: tuple[Chain, ...] = ()
    """Those of each direction."""
    others: tuple[Difference, ...] = ()
    """Of other directions in the same step, where their gradients differ as well."""


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
    workload: Training, chunks: int, results: Sequence[StepResult], *, exact: bool
) -> Verdict:
    """Compare every stage's steps with the monolith's; stops at the first step that differs.

    ``results`` are all ranks', in order, and their parameters start as the monolith's. Of two
    directions each is compared, with the gradient of both. ``exact`` demands equal bits (the
    built-in schedules under our executor); without it, equal bits are only counted.
    """
    verdict = Verdict()
    directions = [_Followed(workload, chain) for chain in chains(results)]
    for number in range(min(len(s.steps) for one in directions for s in one.chain)):
        firsts = [one.chain[0].steps[number] for one in directions]
        cut = partition(workload.batch, chunks, firsts)
        shares = cut.shares(firsts)
        steps = [one.evidence(number, cut, shares, directions) for one in directions]
        if not bool(torch.isfinite(steps[0].columns.gradients).all()):
            return verdict  # the reference itself diverges: nothing can be said
        found = [_numbers(s, s.records[-1].loss, verdict, exact) for s in steps]
        if not any(found):
            for place, (one, step) in enumerate(zip(directions, steps, strict=True)):
                error = one.advance(step)
                found[place] = _worst("parameter", step, error, one.shadow.bound)
        if any(found):
            verdict.difference = _first(found, directions, steps)
            return verdict
        for one, step in zip(directions, steps, strict=True):
            one.steps.append(step)
    verdict.steps = directions[0].steps
    return verdict


def _first(
    found: Sequence[Difference | None], directions: Sequence[_Followed], steps: Sequence[Step]
) -> Difference:
    """Return the first difference, of gradients with those of the other directions."""
    every = tuple(one.chain for one in directions)
    told = [
        replace(at, evidence=step, earlier=tuple(one.steps), chain=one.chain, chains=every)
        for at, one, step in zip(found, directions, steps, strict=True)
        if at is not None
    ]
    gradients = [one for one in told if one.what == "gradient" and not one.within_tolerance]
    if not gradients:
        return told[0]
    return replace(gradients[0], others=tuple(gradients[1:]))


class _Followed:
    """One chain of stages, step by step beside the monolith."""

    def __init__(self, workload: Training, chain: Chain) -> None:
        self.chain = chain
        self.steps: list[Step] = []
        self._workload = workload
        self._spans = _spans(chain)
        self._before = torch.cat([unpack(stage.initial, workload.dtype) for stage in chain])
        self.shadow = Shadow(workload, self._before, chain)

    def evidence(
        self,
        number: int,
        cut: Partition,
        shares: Sequence[Sequence[int]],
        directions: Sequence[_Followed],
    ) -> Step:
        """Put together what the step had, and what it should have: of all directions' work."""
        dtype = self._workload.dtype
        reference, columns = step_at(self._workload, self._before, cut.rows, number)
        sums: dict[tuple[int, ...], Tensor] = {}

        def accumulated(record: StepRecord, share: Sequence[int]) -> Tensor:
            order = cut.order(record.weights, share)
            if order not in sums:
                sums[order] = columns.accumulated(order)
            return sums[order]

        parts = []
        for place, span in enumerate(self._spans):
            halves = [
                accumulated(one.chain[place].steps[number], share)[span]
                for one, share in zip(directions, shares, strict=True)
                if share
            ]
            parts.append(sum(halves[1:], start=halves[0]))
        records = tuple(stage.steps[number] for stage in self.chain)
        lasts = tuple(one.chain[-1].steps[number] for one in directions)
        absent, first = set(), 0
        for record, stage in zip(records, self.chain, strict=True):
            absent |= {first + place for place in record.absent}
            first += len(stage.layout)
        orders = [cut.order(r.backwards, share) for r, share in zip(lasts, shares, strict=True)]
        return Step(
            number=number,
            reference=reference,
            columns=columns,
            partition=cut,
            orders=tuple(orders),
            right=torch.cat(parts),
            observed=torch.cat([unpack(record.gradient, dtype) for record in records]),
            spans=self._spans,
            absent=frozenset(absent),
            records=records,
            lasts=lasts,
            backwards=tuple(cut.seen(record.weights) for record in records),
        )

    def advance(self, step: Step) -> Tensor:
        """Go on to the parameters after a step; return each one's error, (parameters,)."""
        dtype = self._workload.dtype
        after = torch.cat([unpack(record.parameters, dtype) for record in step.records])
        error = self.shadow.advance(step.observed, step.absent, after)
        self._before = after
        return error


def _numbers(step: Step, loss: float | None, verdict: Verdict, exact: bool) -> Difference | None:
    """Compare a step's gradient, then its loss."""
    same = torch.equal(step.right, step.observed)
    same_loss = loss is None or step.loss() == loss
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
        last = len(step.spans) - 1
        return Difference(
            "loss", step.number, (last,), 0, 0.0, step.loss(), loss, True, bound=bound
        )
    error = _errors(step, step.right)
    found = _worst("gradient", step, error, torch.zeros_like(error))
    assert found is not None
    return replace(found, within_tolerance=True, bound=bound)


def _left_out(step: Step) -> Difference | None:
    """Return the difference where stages went backward through some of the microbatches only.

    That they left others out may stay within the bound of a low precision. It is certain where
    what they have is, bit for bit, the sum of those that they did. Of two directions that cannot
    be seen: what a stage has is summed with another's.
    """
    if len(step.orders) > 1:
        return None
    everything = set(range(len(step.partition.rows)))
    stages, missing = [], set[int]()
    for stage, (places, span) in enumerate(zip(step.backwards, step.spans, strict=True)):
        left = everything - set(places)
        if not left or not places or len(set(places)) < len(places):
            continue
        observed = step.observed[span]
        if torch.equal(observed, step.right[span]):
            continue
        if torch.equal(observed, step.columns.accumulated(places)[span]):
            stages.append(stage)
            missing |= left
    if not stages:
        return None
    error = _errors(step, step.right)
    first = next(p for p in range(len(step.sizes)) if step_stage(step, p) == stages[0])
    worst = float(error.max())
    left_out = tuple(sorted(missing))
    return Difference("gradient", step.number, tuple(stages), first, worst, left_out=left_out)


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
    expected = step.loss()
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
    stages = sorted({step_stage(step, int(place)) for place in outside.nonzero().reshape(-1)})
    worst = error[outside].max() if bool(torch.isfinite(error).all()) else torch.tensor(math.inf)
    first = int(outside.nonzero()[0])
    return Difference(what, step.number, tuple(stages), first, float(worst))


def step_stage(step: Step, parameter: int) -> int:
    """Return the stage that holds one of the monolith's parameters."""
    start = sum(step.sizes[:parameter])
    for stage, span in enumerate(step.spans):
        if span.start <= start < span.stop:
            return stage
    raise AssertionError(f"parameter {parameter} is on no stage")


def _spans(chain: Chain) -> tuple[slice, ...]:
    spans, start = [], 0
    for stage in chain:
        spans.append(slice(start, start + stage.size))
        start += stage.size
    return tuple(spans)
