"""One case from start to verdict: run on a world, judged, its numbers compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from harness.case import Case, UsageError
from harness.checkers import memory, uneven
from harness.checkers.labels import check_labels
from harness.explore import explore, simulated_of
from harness.findings import Finding
from harness.judge import judge, told_once
from harness.ledger import settled
from harness.nemesis import harmed, with_injected
from harness.numbers import Numbers, compare_numbers
from harness.parity.program import StepEntry
from harness.parity.refusal import settle
from harness.parity.results import StepResult
from harness.targets import Target, TargetError
from harness.worlds import Outcome, Program, World
from harness.worlds.simulated.recorded import trace_hash

EXPLAIN_NUMBERS = frozenset(
    {
        "shape-mismatch",
        "dtype-mismatch",
        "message-swap",
        "unreceived-message",
        "buffer-overwrite",
        "early-read",
        "collective-mismatch",
    }
)
"""Faults of the communication after which wrong numbers are no news."""


class RefusedError(UsageError):
    """The target itself refuses the case's shape."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What became of one case."""

    case: Case
    findings: tuple[Finding, ...] = ()
    refused: str | None = None  # the target's own message
    compared: bool = False
    bitwise: bool = False
    runs: int = 1  # of the program, in all semantics and interleavings
    trace: str | None = None  # the hash of a simulated run's trace

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The findings that are errors."""
        return tuple(f for f in self.findings if f.severity == "error")


def run_case(
    target: Target,
    case: Case,
    world: World,
    timeout: float,
    observe: Callable[[Outcome], None] | None = None,
) -> CaseResult:
    """Run one case and return what became of it; ``observe`` is given what is judged.

    RefusedError when the target refuses the shape, TargetError when it cannot be
    loaded, KeyboardInterrupt when the user stops it.
    """
    result = execute(target, case, world, timeout, observe=observe)
    if result.refused is not None:
        raise RefusedError(f"{target.text} refuses this shape: {result.refused}")
    return result


def execute(
    target: Target,
    case: Case,
    world: World,
    timeout: float,
    *,
    fresh: bool = False,
    observe: Callable[[Outcome], None] | None = None,
) -> CaseResult:
    """Run one case; ``fresh`` on ranks that have run nothing before."""
    program = program_of(target, case, fresh=fresh)
    outcome = world.run(program, case.world, timeout=timeout)
    if outcome.ending == "interrupted":
        raise KeyboardInterrupt
    changed = settled(outcome)
    _refuse_unloadable(outcome)
    if observe is not None:
        observe(outcome)
    if (message := settle(outcome)) is not None:
        return CaseResult(case, refused=message)
    result = verdict_on(target, case, outcome, changed, world)
    result = replace(result, trace=trace_hash(outcome))
    if world.name != "sim" or result.failures:
        return result
    # How a plan of the user's own, sends and receives included, is posted is our choice.
    ours = target.kind in ("plan", "csv") and case.policy is None
    explored = explore(program, case, world, timeout, outcome, judge, "error", hazards=not ours)
    found = told_once([*result.findings, *explored.findings])
    return replace(result, findings=tuple(found), runs=explored.runs)


def program_of(target: Target, case: Case, *, fresh: bool = False) -> Program:
    """Return what the ranks of a case run."""
    return Program(
        entry=harmed(StepEntry(target, case), case.nemesis),
        fresh=fresh,
        warm=target.takes_compiler,
        delay_ms=case.delay,
        seed=case.seed,
        simulated=simulated_of(case),
    )


def verdict_on(
    target: Target,
    case: Case,
    outcome: Outcome,
    already: Iterable[Finding] = (),
    world: World | None = None,
) -> CaseResult:
    """Judge an outcome whose ranks neither refused nor failed to load; ``already`` was found.

    A user's own model is compared with on a rank of ``world``.
    """
    line = str(case)
    found = uneven.explained([*already, *judge(outcome, case)], case, target)
    explained = any(f.code in EXPLAIN_NUMBERS and f.severity == "error" for f in found)
    numbers = Numbers()
    if not explained:
        numbers = compare_numbers(target, case, outcome, world)
        wrong = list(numbers.findings)
        unknown = [f for f in wrong if f.code == "gradient-mismatch" and f.cause == "unknown"]
        if unknown and (swaps := check_labels(outcome.trace, stages=True)):
            wrong = [*swaps[:1], *(f for f in wrong if f not in unknown)]
        found += uneven.explained(wrong, case, target)
    if not any(f.severity == "error" for f in found):
        found += memory.check(case, outcome, target)
    return CaseResult(
        case,
        with_injected((f if f.case else f.with_(case=line) for f in found), case, outcome),
        compared=numbers.compared,
        bitwise=numbers.bitwise,
    )


def _refuse_unloadable(outcome: Outcome) -> None:
    for rank in outcome.ranks:
        if rank.error is not None and rank.error.type == "NoSuchMutantError":
            raise UsageError(rank.error.message)
    for rank in outcome.ranks:
        if isinstance(rank.result, StepResult) and rank.result.unloadable is not None:
            failed = rank.result.unloadable
            raise TargetError(failed.message, failed.traceback)
