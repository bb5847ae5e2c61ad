"""What can be wrong with a plan, found before anything runs.

Each check is a generator over the plan; together they take time linear in its length.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.actions import Action, Kind, Origin
from pipeline.dependencies import Result, receive_for, result, run_order

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


def find_problems(plan: "Plan") -> list[Problem]:
    """List the root causes: later checks run only on what passes the earlier ones.

    A missing action would show again as a missing send and as a rank that never gets on.
    """
    for check in (_misplaced, _incomplete, _unmatched, _before_cause, _never_runs):
        if problems := list(check(plan)):
            return problems
    return []


def _misplaced(plan: "Plan") -> Iterator[Problem]:
    """Actions out of range, or on the wrong rank."""
    for rank, row in enumerate(plan.rows):
        for action in row:
            if not 0 <= action.stage < plan.stages:
                yield Problem(rank, action, f"is out of range: stages are 0..{plan.stages - 1}")
            elif not 0 <= action.microbatch < plan.chunks:
                allowed = f"0..{plan.chunks - 1}"
                yield Problem(rank, action, f"is out of range: microbatches are {allowed}")
            elif (owner := plan.placement[action.stage]) != rank:
                reason = f"is on the wrong rank: stage {action.stage} is on rank {owner}"
                yield Problem(rank, action, reason)


def _incomplete(plan: "Plan") -> Iterator[Problem]:
    """Actions given twice, and work that no action does."""
    seen: set[Action] = set()
    for rank, row in enumerate(plan.rows):
        for action in row:
            if action in seen:
                yield Problem(rank, action, "appears twice")
            seen.add(action)
    for stage, rank in enumerate(plan.placement):
        for microbatch in range(plan.chunks):
            forward, full, of_input, of_weights = (
                Action(stage, kind, microbatch) for kind in (Kind.F, Kind.B, Kind.I, Kind.W)
            )
            if forward not in seen:
                yield Problem(rank, forward, "is missing")
            split = [half for half in (of_input, of_weights) if half in seen]
            if full in seen and split:
                yield Problem(rank, split[0], f"is done already by {full}")
            elif full not in seen and not split:
                yield Problem(rank, full, "is missing")
            elif len(split) == 1:
                other = of_weights if split[0] is of_input else of_input
                yield Problem(rank, other, f"is missing: {split[0]} is half of a backward")


def _unmatched(plan: "Plan") -> Iterator[Problem]:
    """In a lowered plan: messages with one end, and work whose data no message brings."""
    if not plan.is_lowered:
        return
    present = {action for row in plan.rows for action in row}
    for rank, row in enumerate(plan.rows):
        for action in row:
            if action.kind.is_comm:
                other = action.other_end
                end = "receive" if action.kind.is_send else "send"
                if other not in present:
                    yield Problem(rank, action, f"has no {end}: {other} is missing")
                elif plan.placement[other.stage] == rank:
                    yield Problem(rank, action, f"sends to its own rank: {other} is there too")
            elif (receive := receive_for(action, plan.placement)) and receive not in present:
                yield Problem(rank, action, f"needs {receive}, which is missing")


def _before_cause(plan: "Plan") -> Iterator[Problem]:
    """Actions that come before what they need in their own row."""
    for rank, row in enumerate(plan.rows):
        done: set[Result] = set()
        for action in row:
            own = [need for need in plan.needs(action) if plan.placement[need[0]] == rank]
            receive = receive_for(action, plan.placement) if plan.is_lowered else None
            if receive:
                own.append(result(receive))
            for missing in own:
                if missing not in done:
                    yield Problem(rank, action, f"comes before {Action(*missing)}, which it needs")
            done.add(result(action))


def _never_runs(plan: "Plan") -> Iterator[Problem]:
    """Ranks that wait for each other whatever the comm policy: every row alone is in order."""
    _, stuck = run_order(plan.rows, plan.needs)
    for rank, (action, missing) in sorted(stuck.items()):
        owner = plan.placement[missing[0]]
        blocker = stuck[owner][0]
        reason = f"waits for {Action(*missing)}, and rank {owner} cannot get past {blocker}"
        yield Problem(rank, action, reason)
