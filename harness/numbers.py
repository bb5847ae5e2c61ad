"""A case's numbers against the monolith's, where the monolith can be built.

The seeded one is built here. A user's own model is built where the user's code is loaded, which
this process does not do: on one rank of the world, after the case's own run, by the same checker.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.case import Case
from harness.checkers import parity
from harness.findings import Finding
from harness.targets import Target, TargetError
from harness.worlds import Outcome, Program, RankContext, World, WorldError


@dataclass(frozen=True, slots=True)
class Numbers:
    """What the comparison says."""

    findings: tuple[Finding, ...] = ()
    compared: bool = False
    bitwise: bool = False


def compare_numbers(target: Target, case: Case, outcome: Outcome, world: World | None) -> Numbers:
    """Compare a case's numbers; of a user's own model on a rank of ``world``.

    TargetError where that model cannot be run whole.
    """
    if not target.without:
        return _examined(target, case, outcome)
    if world is None:
        raise WorldError(f"{target.text} has a model of its own, which needs a world to run in")
    entry = OnARank(target, case, outcome)
    warm = target.takes_compiler
    program = Program(entry=entry, init_group=False, warm=warm, seed=case.seed)
    judged = world.run(program, 1, timeout=max(60.0, outcome.elapsed_s))
    if judged.ending == "interrupted":
        raise KeyboardInterrupt
    rank = judged.ranks[0]
    if isinstance(rank.result, Numbers):
        return rank.result
    if rank.error is not None:
        raise TargetError(
            f"{target.text}: its model cannot be run whole: {rank.error.type}: "
            f"{rank.error.message}",
            rank.error.traceback,
        )
    raise TargetError(
        f"{target.text}: its model cannot be run whole within {judged.elapsed_s:.0f} s"
    )


def _examined(target: Target, case: Case, outcome: Outcome) -> Numbers:
    findings, verdict = parity.examine(case, outcome, target)
    compared = verdict is not None and verdict.compared
    return Numbers(tuple(findings), compared, compared and verdict is not None and verdict.bitwise)


@dataclass(frozen=True, slots=True)
class OnARank:
    """The entry of a program that compares a finished case's numbers; gives :class:`Numbers`."""

    target: Target
    case: Case
    outcome: Outcome

    def __call__(self, context: RankContext) -> Numbers:
        """Compare them on this rank."""
        return _examined(self.target, self.case, self.outcome)
