"""Mutants of a plan: its rows with one thing changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from harness.case import UsageError
from harness.injection import Injection
from pipeline.actions import Action, Kind
from pipeline.lower import Policy, lower
from pipeline.plan import Plan

Row = tuple[Action, ...]
Change = Callable[[Row], Iterator[tuple[str, Row]]]
"""From a rank's row to the changed ones, each with what was done to it."""


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
        for mutant in _mutants(plan, policy, name.operator, name.rank):
            if mutant.name == name:
                return mutant.plan
    raise UsageError(f"mutant={name}: {plan.schedule} has none such in this shape")


def _lowered(plan: Plan, policy: Policy) -> Plan:
    return plan if plan.is_lowered else lower(plan, policy)


def _mutants(plan: Plan, policy: Policy, operator: str, rank: int) -> Iterator[PlanMutant]:
    if operator in _ACTIONS:
        for place, (text, changed) in enumerate(_changed(_lowered(plan, policy), rank, operator)):
            yield PlanMutant(Injection(operator, rank, place), text, changed)
    elif operator in _COMPUTES and not plan.is_lowered:
        for place, (text, changed) in enumerate(_changed(plan, rank, operator)):
            yield PlanMutant(Injection(operator, rank, place), text, lower(changed, policy))


def _changed(plan: Plan, rank: int, operator: str) -> Iterator[tuple[str, Plan]]:
    change = _ACTIONS.get(operator) or _COMPUTES[operator]
    for text, row in change(plan.rows[rank]):
        rows = (*plan.rows[:rank], row, *plan.rows[rank + 1 :])
        yield text, Plan(plan.schedule, plan.world, plan.chunks, rows, plan.placement)


def _drop(row: Row) -> Iterator[tuple[str, Row]]:
    for place, action in enumerate(row):
        yield f"without {action}", (*row[:place], *row[place + 1 :])


def _duplicate(row: Row) -> Iterator[tuple[str, Row]]:
    for place, action in enumerate(row):
        yield f"{action} twice", (*row[:place], action, *row[place:])


def _swap(row: Row) -> Iterator[tuple[str, Row]]:
    for place, (one, other) in enumerate(pairwise(row)):
        yield f"{other} before {one}", (*row[:place], other, one, *row[place + 2 :])


def _hoist(row: Row) -> Iterator[tuple[str, Row]]:
    """Move an action to where the one of its kind before it stands, and past that."""
    for place, action in enumerate(row):
        earlier = [at for at in range(place) if row[at].kind is action.kind]
        if earlier and earlier[-1] < place - 1:
            at = earlier[-1]
            moved = (*row[:at], action, *row[at:place], *row[place + 1 :])
            yield f"{action} hoisted before {row[at]}", moved


def _sink(row: Row) -> Iterator[tuple[str, Row]]:
    """Move an action behind the next one of its kind."""
    for place, action in enumerate(row):
        later = [at for at in range(place + 1, len(row)) if row[at].kind is action.kind]
        if later and later[0] > place + 1:
            at = later[0]
            moved = (*row[:place], *row[place + 1 : at + 1], action, *row[at + 1 :])
            yield f"{action} put off behind {row[at]}", moved


def _shift(row: Row) -> Iterator[tuple[str, Row]]:
    yield from _replaced(row, lambda a: [replace(a, microbatch=n) for n in _beside(a.microbatch)])


def _restage(row: Row) -> Iterator[tuple[str, Row]]:
    yield from _replaced(row, lambda a: [replace(a, stage=n) for n in _beside(a.stage)])


def _retarget(row: Row) -> Iterator[tuple[str, Row]]:
    """Let a message go to, or come from, the neighbour on the other side."""
    yield from _replaced(
        row, lambda a: [replace(a, kind=_TURNED[a.kind])] if a.kind in _TURNED else []
    )


_TURNED = {
    Kind.SEND_F: Kind.SEND_B,
    Kind.SEND_B: Kind.SEND_F,
    Kind.RECV_F: Kind.RECV_B,
    Kind.RECV_B: Kind.RECV_F,
}


def _beside(number: int) -> list[int]:
    return [n for n in (number - 1, number + 1) if n >= 0]


def _replaced(row: Row, others: Callable[[Action], list[Action]]) -> Iterator[tuple[str, Row]]:
    """Put each of the other actions that an action may become in its place."""
    for place, action in enumerate(row):
        for other in others(action):
            yield f"{other} for {action}", (*row[:place], other, *row[place + 1 :])


def _rewarm(row: Row) -> Iterator[tuple[str, Row]]:
    """Warm up by one forward more, or one less."""
    backward = next((at for at, a in enumerate(row) if a.kind in (Kind.B, Kind.I)), None)
    if backward is None:
        return
    further = next((at for at in range(backward, len(row)) if row[at].kind is Kind.F), None)
    if further is not None:
        forward = row[further]
        rest = (*row[backward:further], *row[further + 1 :])
        yield f"warmup of one more, {forward}", (*row[:backward], forward, *rest)
    forwards = [at for at in range(backward) if row[at].kind is Kind.F]
    if len(forwards) > 1:
        at = forwards[-1]
        rest = (*row[at:backward], *row[backward + 1 :])
        yield f"warmup of one less than to {row[at]}", (*row[:at], row[backward], *rest)


_ACTIONS: dict[str, Change] = {
    "drop": _drop,
    "duplicate": _duplicate,
    "swap": _swap,
    "hoist": _hoist,
    "put-off": _sink,
    "shift-microbatch": _shift,
    "retarget": _retarget,
    "wrong-stage": _restage,
}
"""What is done to any of a lowered plan's actions."""

_COMPUTES: dict[str, Change] = {
    "reorder": _swap,
    "hoist-compute": _hoist,
    "put-off-compute": _sink,
    "wrong-warmup": _rewarm,
}
"""What is done to a plan before it has sends and receives."""

PLAN_OPERATORS = (*_ACTIONS, *_COMPUTES)
"""The names of all that is done to a plan."""
