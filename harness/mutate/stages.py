"""Changes to where a plan does something: on which stage, on which rank, in which direction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from harness.mutate.rows import Row, replaced, with_row
from pipeline.actions import Action
from pipeline.placement import placement_of
from pipeline.plan import Plan

Rows = tuple[Row, ...]


def other_stage(plan: Plan, rank: int) -> Iterator[tuple[str, Rows]]:
    """Do an action for another stage of the same rank."""
    held = placement_of(plan).held_by(rank)

    def others(action: Action) -> list[Action]:
        if action.stage not in held:
            return []
        return [replace(action, stage=stage) for stage in held if stage != action.stage]

    for text, row in replaced(plan.rows[rank], others):
        yield text, with_row(plan, rank, row)


def exchange_stages(plan: Plan, rank: int) -> Iterator[tuple[str, Rows]]:
    """Let two stages of a rank exchange all of their actions."""
    held = placement_of(plan).held_by(rank)
    for place, one in enumerate(held):
        for other in held[place + 1 :]:
            turned = {one: other, other: one}
            row = _mapped(plan.rows[rank], partial(_on_stage, turned))
            yield f"stages {one} and {other} exchanged", with_row(plan, rank, row)


def wrong_rank(plan: Plan, rank: int) -> Iterator[tuple[str, Rows]]:
    """Let the next rank do an action."""
    if plan.world < 2:
        return
    other = (rank + 1) % plan.world
    mine, theirs = plan.rows[rank], plan.rows[other]
    for place, action in enumerate(mine):
        rows = with_row(plan, rank, (*mine[:place], *mine[place + 1 :]))
        moved = (*theirs[:place], action, *theirs[place:])
        yield f"{action} on rank {other}", (*rows[:other], moved, *rows[other + 1 :])


def exchange_ranks(plan: Plan, rank: int) -> Iterator[tuple[str, Rows]]:
    """Let a rank and the next one do each other's stage, of each round one."""
    if plan.world < 2:
        return
    other = (rank + 1) % plan.world
    for mine, theirs in zip(
        placement_of(plan).held_by(rank), placement_of(plan).held_by(other), strict=False
    ):
        turned = {mine: theirs, theirs: mine}
        rows = list(plan.rows)
        for changed in (rank, other):
            rows[changed] = _mapped(rows[changed], partial(_on_stage, turned))
        yield f"stage {mine} on rank {other}, and {theirs} on {rank}", tuple(rows)


def cross_direction(plan: Plan, rank: int) -> Iterator[tuple[str, Rows]]:
    """Do an action for a microbatch that goes the other way."""
    if plan.directions == 1:
        return

    def others(action: Action) -> list[Action]:
        return [replace(action, microbatch=_opposite(plan, action.microbatch))]

    for text, row in replaced(plan.rows[rank], others):
        yield text, with_row(plan, rank, row)


def exchange_directions(plan: Plan, rank: int) -> Iterator[tuple[str, Rows]]:
    """Let two microbatches that go opposite ways change places on a rank."""
    if plan.directions == 1:
        return
    for microbatch in range(plan.chunks // 2):
        opposite = _opposite(plan, microbatch)
        turned = {microbatch: opposite, opposite: microbatch}
        row = _mapped(plan.rows[rank], partial(_for_microbatch, turned))
        yield f"microbatches {microbatch} and {opposite} exchanged", with_row(plan, rank, row)


def _opposite(plan: Plan, microbatch: int) -> int:
    half = plan.chunks // 2
    return microbatch + half if microbatch < half else microbatch - half


def _mapped(row: Row, change: Callable[[Action], Action]) -> Row:
    """Change every action, and of a pair both parts."""
    return tuple(
        Action.overlap(change(a.overlapped[0]), change(a.overlapped[1]), a.origin)
        if a.overlapped
        else change(a)
        for a in row
    )


def _on_stage(turned: dict[int, int], action: Action) -> Action:
    return replace(action, stage=turned.get(action.stage, action.stage))


def _for_microbatch(turned: dict[int, int], action: Action) -> Action:
    return replace(action, microbatch=turned.get(action.microbatch, action.microbatch))
