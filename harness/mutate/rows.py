"""Changes to a row whatever it does: actions left out, doubled, moved, or changed to others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from pipeline.actions import Action, Kind
from pipeline.plan import Plan

Row = tuple[Action, ...]
Change = Callable[[Plan, int], Iterator[tuple[str, tuple[Row, ...]]]]
"""From a plan and a rank to the plan's changed rows, each with what was done to that rank."""
RowChange = Callable[[Row], Iterator[tuple[str, Row]]]
"""From a rank's row to the changed ones."""


def of_row(change: RowChange) -> Change:
    """Make a change of a plan from one that concerns a single row."""

    def changed(plan: Plan, rank: int) -> Iterator[tuple[str, tuple[Row, ...]]]:
        for text, row in change(plan.rows[rank]):
            yield text, with_row(plan, rank, row)

    return changed


def with_row(plan: Plan, rank: int, row: Row) -> tuple[Row, ...]:
    """Return a plan's rows with another in place of a rank's."""
    return (*plan.rows[:rank], row, *plan.rows[rank + 1 :])


def variants(action: Action, others: Callable[[Action], Sequence[Action]]) -> Iterator[Action]:
    """Give what an action may become; of an overlapped pair one part does, and it stays a pair."""
    if not action.overlapped:
        yield from others(action)
        return
    forward, backward = action.overlapped
    for other in others(forward):
        yield Action.overlap(other, backward, action.origin)
    for other in others(backward):
        yield Action.overlap(forward, other, action.origin)


def replaced(row: Row, others: Callable[[Action], Sequence[Action]]) -> Iterator[tuple[str, Row]]:
    """Put each of the other actions that an action may become in its place."""
    for place, action in enumerate(row):
        for other in variants(action, others):
            yield f"{other} for {action}", (*row[:place], other, *row[place + 1 :])


def drop(row: Row) -> Iterator[tuple[str, Row]]:
    """Leave an action out."""
    for place, action in enumerate(row):
        yield f"without {action}", (*row[:place], *row[place + 1 :])


def duplicate(row: Row) -> Iterator[tuple[str, Row]]:
    """Do an action twice."""
    for place, action in enumerate(row):
        yield f"{action} twice", (*row[:place], action, *row[place:])


def swap(row: Row) -> Iterator[tuple[str, Row]]:
    """Let two neighbours change places."""
    for place, (one, other) in enumerate(pairwise(row)):
        yield f"{other} before {one}", (*row[:place], other, one, *row[place + 2 :])


def hoist(row: Row) -> Iterator[tuple[str, Row]]:
    """Move an action to where the one of its kind before it stands, and past that."""
    for place, action in enumerate(row):
        earlier = [at for at in range(place) if row[at].kind is action.kind]
        if earlier and earlier[-1] < place - 1:
            at = earlier[-1]
            moved = (*row[:at], action, *row[at:place], *row[place + 1 :])
            yield f"{action} hoisted before {row[at]}", moved


def put_off(row: Row) -> Iterator[tuple[str, Row]]:
    """Move an action behind the next one of its kind."""
    for place, action in enumerate(row):
        later = [at for at in range(place + 1, len(row)) if row[at].kind is action.kind]
        if later and later[0] > place + 1:
            at = later[0]
            moved = (*row[:place], *row[place + 1 : at + 1], action, *row[at + 1 :])
            yield f"{action} put off behind {row[at]}", moved


def shift_microbatch(row: Row) -> Iterator[tuple[str, Row]]:
    """Do an action for the microbatch before or after."""
    yield from replaced(row, lambda a: [replace(a, microbatch=n) for n in _beside(a.microbatch)])


def wrong_stage(row: Row) -> Iterator[tuple[str, Row]]:
    """Do an action for the stage before or after."""
    yield from replaced(row, lambda a: [replace(a, stage=n) for n in _beside(a.stage)])


def _beside(number: int) -> list[int]:
    return [n for n in (number - 1, number + 1) if n >= 0]


def retarget(row: Row) -> Iterator[tuple[str, Row]]:
    """Let a message go to, or come from, the neighbour on the other side."""
    yield from replaced(
        row, lambda a: [replace(a, kind=_TURNED[a.kind])] if a.kind in _TURNED else []
    )


_TURNED = {
    Kind.SEND_F: Kind.SEND_B,
    Kind.SEND_B: Kind.SEND_F,
    Kind.RECV_F: Kind.RECV_B,
    Kind.RECV_B: Kind.RECV_F,
}


def rewarm(row: Row) -> Iterator[tuple[str, Row]]:
    """Warm up by one forward more, or one less."""
    backward = next((at for at, action in enumerate(row) if _goes_back(action)), None)
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


def _goes_back(action: Action) -> bool:
    return any(part.kind in (Kind.B, Kind.I) for part in action.parts)
