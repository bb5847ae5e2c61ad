"""Mutants of a plan: its rows with one thing changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from harness.case import UsageError
from harness.injection import Injection
from harness.mutate import backwards, rows, stages
from harness.mutate.rows import Change, Row, RowChange, of_row
from pipeline.lower import Policy, lower
from pipeline.plan import Plan


@dataclass(frozen=True, slots=True)
class PlanMutant:
    """A lowered plan with one thing changed on one rank."""

    name: Injection
    text: str  # what was done, for people
    plan: Plan


def plan_mutants(plan: Plan, policy: Policy) -> list[PlanMutant]:
    """Return every mutant of a plan, no two of them alike.

    ``plan`` is as the schedule gives it. One that only computes is changed as it is, and then
    given its sends and receives; and is given them, and then changed.
    """
    lowered = _lowered(plan, policy)
    found: dict[tuple[Row, ...], PlanMutant] = {}
    for rank in range(plan.world):
        for operator in PLAN_OPERATORS:
            for mutant in _mutants(plan, policy, operator, rank):
                if mutant.plan.rows != lowered.rows:
                    found.setdefault(mutant.plan.rows, mutant)
    return list(found.values())


def mutated(plan: Plan, policy: Policy, name: Injection) -> Plan:
    """Return one mutant's lowered plan; UsageError where the plan has no such one."""
    if name.rank < plan.world:
        for mutant in _mutants(plan, policy, name.operator, name.rank, only=name.place):
            return mutant.plan
    raise UsageError(f"mutant={name}: {plan.schedule} has none such in this shape")


def _lowered(plan: Plan, policy: Policy) -> Plan:
    return plan if plan.is_lowered else lower(plan, policy)


def _mutants(
    plan: Plan, policy: Policy, operator: str, rank: int, only: int | None = None
) -> Iterator[PlanMutant]:
    """Give an operator's mutants of a rank, or the one at a place among them."""
    if operator not in PLAN_OPERATORS:
        return
    what = PLAN_OPERATORS[operator]
    if plan.is_lowered and not what.to_lowered:
        return
    base = _lowered(plan, policy) if what.to_lowered else plan
    for place, (text, changed) in enumerate(what.change(base, rank)):
        if only in (None, place):
            mutant = replace(base, rows=changed)
            lowered = mutant if what.to_lowered else lower(mutant, policy)
            yield PlanMutant(Injection(operator, rank, place), text, lowered)


@dataclass(frozen=True, slots=True)
class Operator:
    """A way to damage a plan."""

    change: Change
    doc: str
    to_lowered: bool
    """Whether it is done to a plan with sends and receives; else before it is given them."""


def _lowered_row(change: RowChange, doc: str) -> Operator:
    return Operator(of_row(change), doc, to_lowered=True)


def _compute_row(change: RowChange, doc: str) -> Operator:
    return Operator(of_row(change), doc, to_lowered=False)


PLAN_OPERATORS = {
    "drop": _lowered_row(rows.drop, "an action is left out"),
    "duplicate": _lowered_row(rows.duplicate, "an action is done twice"),
    "swap": _lowered_row(rows.swap, "an action comes after the next one"),
    "hoist": _lowered_row(rows.hoist, "an action comes before the last one of its kind"),
    "put-off": _lowered_row(rows.put_off, "an action comes after the next one of its kind"),
    "shift-microbatch": _lowered_row(rows.shift_microbatch, "it is for the microbatch beside"),
    "retarget": _lowered_row(rows.retarget, "a message goes to, or comes from, the other side"),
    "wrong-stage": _lowered_row(rows.wrong_stage, "it is for the stage beside"),
    "other-stage": Operator(
        stages.other_stage, "it is for the other stage of its rank", to_lowered=True
    ),
    "cross-direction": Operator(
        stages.cross_direction, "it is for a microbatch that goes the other way", to_lowered=True
    ),
    "weight-first": _lowered_row(backwards.weight_first, "W comes just before its I"),
    "weight-last": _lowered_row(backwards.weight_last, "W comes at the very end"),
    "merge-halves": _lowered_row(backwards.merge_halves, "one B stands for an I and its W"),
    "whole-and-half": _lowered_row(backwards.whole_and_half, "B, and its I or W as well"),
    "half-backward": _lowered_row(backwards.half_backward, "I alone, or W alone, for a B"),
    "split": _lowered_row(backwards.split, "I and W, one after the other, for a B"),
    "half-pair": _lowered_row(backwards.half_pair, "one part of an overlapped pair alone"),
    "reorder": _compute_row(rows.swap, "an action comes after the next one, its messages too"),
    "hoist-compute": _compute_row(rows.hoist, "as hoist, its messages too"),
    "put-off-compute": _compute_row(rows.put_off, "as put-off, its messages too"),
    "wrong-warmup": _compute_row(rows.rewarm, "the warmup is one forward longer, or shorter"),
    "exchange-halves": _compute_row(backwards.exchange_halves, "I and its W change places"),
    "part-pair": _compute_row(backwards.part_pair, "the parts of a pair one after the other"),
    "exchange-pairs": _compute_row(backwards.exchange_pairs, "two pairs exchange their backwards"),
    "join": _compute_row(backwards.join, "a forward and the B beside it become a pair"),
    "exchange-stages": Operator(
        stages.exchange_stages, "two stages of a rank exchange all they do", to_lowered=False
    ),
    "wrong-rank": Operator(stages.wrong_rank, "the next rank does an action", to_lowered=False),
    "exchange-ranks": Operator(
        stages.exchange_ranks, "two ranks do each other's stage", to_lowered=False
    ),
    "exchange-directions": Operator(
        stages.exchange_directions,
        "two microbatches that go opposite ways change places",
        to_lowered=False,
    ),
}
"""What is done to a plan, and what that means."""
