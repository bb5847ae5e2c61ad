"""How many stages a target's ranks hold, and which: as far as drawing shapes and running need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from harness.targets.signature import TargetError
from pipeline.placement import PLACEMENTS, Placement
from pipeline.plan import build_plan
from pipeline.schedules import SCHEDULES

USUAL = "looped"
WORLDS = range(1, 9)
"""The world sizes that a target is asked for, to see how many stages there are."""
USUAL_WORLD = 4
MOST = 64  # stages on a rank


def placement_of_step(step: Callable[..., Any], world: int, what: str = "step") -> Placement:
    """Return where a step with several stages has them: its attribute ``placement``.

    A name (``"looped"``, the usual one: stage s on rank s mod world, two on each; ``"v"``: there
    and back) or a function world → the rank of each stage. TargetError for anything else.
    """
    given = getattr(step, "placement", USUAL)
    known = " or ".join(f'"{name}"' for name in PLACEMENTS)
    if isinstance(given, str) and given in PLACEMENTS:
        ranks: Sequence[int] = PLACEMENTS[given](world)
    elif callable(given):
        ranks = _asked(given, world, what)
    else:
        raise TargetError(
            f"the {what}'s placement is {given!r}; it is to be {known}, or a function that returns "
            "the rank of each stage for a world size"
        )
    return Placement(tuple(ranks))


def _asked(given: Callable[..., Any], world: int, what: str) -> Sequence[int]:
    shown = f"the {what}'s placement({world})"
    try:
        made = given(world)
        if not isinstance(made, Iterable):
            raise TargetError(f"{shown} returned {made!r}; expected the rank of each stage")
        ranks = list(islice(made, MOST * world + 1))
    except TargetError:
        raise
    except Exception as error:
        raise TargetError(f"{shown} raised {type(error).__name__}: {error}") from error
    if len(ranks) > MOST * world:
        raise TargetError(f"{shown} has more than {MOST} stages for each rank")
    for rank in ranks:
        if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < world:
            raise TargetError(f"{shown} has {rank!r}; the ranks are 0..{world - 1}")
    if lacking := sorted(set(range(world)) - set(ranks)):
        raise TargetError(f"{shown} gives rank {lacking[0]} no stage")
    return ranks


@dataclass(frozen=True, slots=True)
class Depth:
    """world → how many slices a target cuts the model in: as many layers are needed at least."""

    per_rank: int = 1
    others: tuple[tuple[int, int], ...] = ()
    """World sizes for which it is not ``per_rank`` for each rank, with what it is."""

    def __call__(self, world: int) -> int:
        """Return it for a world size."""
        return dict(self.others).get(world, self.per_rank * world)


ONE_EACH = Depth()


def depth_by(count: Callable[[int], int | None]) -> Depth:
    """Ask for the world sizes that are usually drawn; None is none."""
    known = {world: slices for world in WORLDS if (slices := count(world)) is not None}
    if not known:
        return ONE_EACH
    usual = max(known, key=lambda world: (world <= USUAL_WORLD, world))
    per_rank = -(-known[usual] // usual)
    return Depth(per_rank, tuple((w, d) for w, d in known.items() if d != per_rank * w))


def depth_of_schedule(name: str) -> Depth:
    """Return how many slices of the model a built-in schedule has."""
    schedule = SCHEDULES[name]
    return Depth(len(schedule.placement(USUAL_WORLD)) // (schedule.directions * USUAL_WORLD))


def depth_of_step(step: Callable[..., Any]) -> Depth:
    """Ask a step for its placements; TargetError where it has none for any world size."""
    return depth_of_placements(lambda world: placement_of_step(step, world).ranks)


def depth_of_placements(ranks_of: Callable[[int], Sequence[int]]) -> Depth:
    """Ask for the rank of each stage; TargetError where that is raised for every world size."""
    errors = []

    def count(world: int) -> int | None:
        try:
            return len(ranks_of(world))
        except TargetError as error:
            errors.append(error)
            return None

    found = depth_by(count)
    if len(errors) == len(WORLDS):
        raise errors[-1]
    return found


def depth_of_plan(generate: Callable[..., Any]) -> Depth:
    """Ask a user's plan for some shapes; one slice a rank where it refuses, or fails, for all."""

    def count(world: int) -> int | None:
        for chunks in (2 * world, 4 * world, world, 1):
            try:
                plan = build_plan(generate, world, chunks)
            except Exception:
                continue  # what it raises is told when it is run
            return plan.stages // plan.directions
        return None

    return depth_by(count)
