"""What can be wrong with a plan, found before anything runs.

Each check is a generator over the plan; together they take time linear in its length. A row is
first looked at as numbers (:mod:`pipeline.sound`), and as actions where something is wrong there.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline import sound
from pipeline.actions import Action, Kind, Origin
from pipeline.dependencies import Result, result, results
from pipeline.walk import Walk, walk

if TYPE_CHECKING:
    from pipeline.plan import Plan


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong: an action of a rank's row (or one that should be there), and why."""

    rank: int
    action: Action
    reason: str

    @property
    def origin(self) -> Origin | None:
        """The line that the action came from, where it is known."""
        return self.action.origin

    def __str__(self) -> str:
        where = f"  {self.origin.file}:{self.origin.line}" if self.origin else ""
        return f"rank {self.rank}: {self.action} {self.reason}{where}"


def find_problems(plan: "Plan", walked: Walk | None = None) -> list[Problem]:
    """List the root causes: later checks run only on what passes the earlier ones.

    A missing action would show again as a missing send and as a rank that never gets on.
    `walked` is the plan's walk, of one that was walked already.
    """
    for suspects, check in (
        (sound.misplaced, misplaced),
        (sound.incomplete, incomplete),
        (sound.unmatched, unmatched),
    ):
        if problems := list(check(plan, suspects(plan))):
            return problems
    walked = walked or walk(plan)
    # A walk sticks where an action comes before what it needs. It does not where work stands
    # before the receive of its data, which may have been sent.
    late = walked.stuck.keys() | sound.before_receives(plan)
    return list(before_cause(plan, sorted(late))) or list(_never_runs(plan, walked))


def misplaced(plan: "Plan", ranks: Iterable[int]) -> Iterator[Problem]:
    """Actions out of range, or on the wrong rank, in the rows of these ranks."""
    for rank in ranks:
        for action in _parts(plan.actions(rank)):
            if not 0 <= action.stage < plan.stages:
                yield Problem(rank, action, f"is out of range: stages are 0..{plan.stages - 1}")
            elif not 0 <= action.microbatch < plan.chunks:
                allowed = f"0..{plan.chunks - 1}"
                yield Problem(rank, action, f"is out of range: microbatches are {allowed}")
            elif (owner := plan.placement[action.stage]) != rank:
                reason = f"is on the wrong rank: stage {action.stage} is on rank {owner}"
                yield Problem(rank, action, reason)
            elif action.microbatch not in (own := plan.microbatches(action.stage)):
                reason = f"goes the other way: stage {action.stage} does {own[0]}..{own[-1]}"
                yield Problem(rank, action, reason)


def _parts(row: Iterable[Action]) -> Iterator[Action]:
    """Give the actions of a row, an overlapped pair as its two."""
    for action in row:
        yield from action.parts


def incomplete(plan: "Plan", ranks: Collection[int]) -> Iterator[Problem]:
    """Actions given twice, and work that no action does: each stage's are in one row by now."""
    seen: dict[Action, Action] = {}  # each as it stands in the plan, with its origin
    for rank in ranks:
        for action in _parts(plan.actions(rank)):
            if action in seen:
                yield Problem(rank, action, "appears twice")
            seen.setdefault(action, action)
    for stage, rank in enumerate(plan.placement):
        if rank in ranks:
            yield from _left_out(plan, stage, seen)


def _left_out(plan: "Plan", stage: int, seen: dict[Action, Action]) -> Iterator[Problem]:
    """Give the work of one stage that no action does, or two do."""
    rank = plan.placement[stage]
    for microbatch in plan.microbatches(stage):
        forward, full, of_input, of_weights = (
            Action(stage, kind, microbatch) for kind in (Kind.F, Kind.B, Kind.I, Kind.W)
        )
        split = [seen[half] for half in (of_input, of_weights) if half in seen]
        backwards = [seen[full]] if full in seen else split
        if forward not in seen:
            yield _absent(rank, forward, backwards)
        if plan.forward_only:
            yield from (Problem(rank, back, "is in a forward-only plan") for back in backwards)
        elif full in seen and split:
            yield Problem(rank, split[0], f"is done already by {full}")
        elif not backwards:
            yield _absent(rank, full, [seen[forward]] if forward in seen else [])
        elif full not in seen and len(split) == 1:
            other = of_weights if split[0] == of_input else of_input
            yield _absent(rank, other, split, f"is missing: {split[0]} is half of a backward")


def _absent(
    rank: int, action: Action, beside: Sequence[Action], reason: str = "is missing"
) -> Problem:
    """Make a problem of an action that is nowhere: it is told at the line of one it belongs to."""
    origin = beside[0].origin if beside else None
    return Problem(rank, replace(action, origin=origin), reason)


def unmatched(plan: "Plan", ranks: Collection[int]) -> Iterator[Problem]:
    """In a lowered plan: messages with one end, and work whose data no message brings."""
    if not plan.is_lowered or not ranks:
        return
    every = range(plan.world)
    present = {a for rank in every for a in plan.actions(rank) if a.kind.is_comm}
    for rank in ranks:
        for action in plan.actions(rank):
            if action.kind.is_comm:
                other = action.other_end
                end = "receive" if action.kind.is_send else "send"
                if other not in present:
                    yield Problem(rank, action, f"has no {end}: {other} is missing")
                elif plan.placement[other.stage] == rank:
                    yield Problem(rank, action, f"sends to its own rank: {other} is there too")
                continue
            for receive in plan.receives_for(action):
                if receive not in present:
                    yield Problem(rank, action, f"needs {receive}, which is missing")


def before_cause(plan: "Plan", ranks: Iterable[int]) -> Iterator[Problem]:
    """Actions that come before what they need in their own row."""
    for rank in ranks:
        done: set[Result] = set()
        there_is = {part for action in plan.actions(rank) for part in action.parts}
        for action in plan.actions(rank):
            own = [need for need in plan.needs(action) if plan.placement[need[0]] == rank]
            if plan.is_lowered:
                own += [result(receive) for receive in plan.receives_for(action)]
            for missing in own:
                if missing not in done:
                    stage, kind, microbatch = missing
                    of_input = Action(stage, Kind.I, microbatch)
                    whole = kind is not Kind.B or of_input not in there_is
                    needed = Action(*missing) if whole else of_input
                    yield Problem(rank, action, f"comes before {needed}, which it needs")
            done.update(results(action))


def _never_runs(plan: "Plan", walked: Walk) -> Iterator[Problem]:
    """Ranks that wait for each other whatever the comm policy: every row alone is in order."""
    stopped = {rank: plan.action(rank, len(walked.starts[rank])) for rank in walked.stuck}
    for rank, missing in walked.stuck.items():
        owner = plan.placement[missing[0]]
        reason = f"waits for {Action(*missing)}, and rank {owner} cannot get past {stopped[owner]}"
        yield Problem(rank, stopped[rank], reason)
