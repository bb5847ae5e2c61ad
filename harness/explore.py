"""What one simulated run does not show: other semantics, other interleavings, buffers in flight.

A case is run once as it is; its verdict is the program's. Where that is clean, the same case is run
again with another interleaving and every operator watched, and, where the order of the ranks can
matter, with sends that are done at once and with more interleavings; NCCL's ordering and capacity
are then decided from the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache

from harness.case import Case
from harness.checkers.repeated import compare_runs
from harness.findings import Finding, Severity
from harness.hazards.check import check_hazards
from harness.ledger import settled
from harness.semantics import NCCL
from harness.trace import State
from harness.worlds import Outcome, Program, Simulated, World
from harness.worlds.simulated.interleavings import following, spelled

SEEDS = 4  # interleavings by a seed, where the order of the ranks can matter
EXHAUSTIVE = 60  # interleavings of a small program, all of them
SMALL = 24  # operations of a program that is small

Judge = Callable[[Outcome, Case], list[Finding]]


@dataclass(slots=True)
class Exploration:
    """What became of one case: the outcome that is judged, and what else was found."""

    findings: list[Finding] = field(default_factory=list)
    runs: int = 1


def simulated_of(case: Case) -> Simulated:
    """Return how the simulated world first runs a case.

    NCCL's semantics are decided from the trace of a run under gloo's, which says what the program
    does where nothing hinders it.
    """
    semantics = case.semantics or "gloo"
    return Simulated(
        semantics="gloo" if semantics in NCCL else semantics,
        capacity=float(case.capacity or 0),
        interleaving=case.interleaving or "",
    )


def explore(
    program: Program,
    case: Case,
    world: World,
    timeout: float,
    first: Outcome,
    judge: Judge,
    severity: Severity,
    *,
    again: bool = True,
    hazards: bool = True,
) -> Exploration:
    """Look for what the first, clean run of a case does not show.

    ``severity`` is that of what only NCCL or another interleaving does. Without ``again`` the
    program is not run another time: only its trace is looked at. Without ``hazards`` NCCL is left
    out.
    """
    explored = Exploration()
    if hazards and case.semantics in (None, *NCCL):
        explored.findings += _hazards(case, first, severity)
    if not again or case.semantics in NCCL or "simulated" not in first.notes:
        return explored

    def run(how: Simulated) -> Outcome:
        explored.runs += 1
        outcome = world.run(replace(program, simulated=how), case.world, timeout=timeout)
        if outcome.ending == "interrupted":
            raise KeyboardInterrupt
        settled(outcome)
        return outcome

    @cache
    def repeats() -> bool:
        """Whether the first run comes to the same when it is run again."""
        again = run(simulated_of(case))
        return "simulated" in again.notes and compare_runs(first, again, severity) is None

    def differs(how: Simulated, outcome: Outcome) -> bool:
        """Keep what a run shows that the first did not; whether that is enough."""
        if "simulated" not in outcome.notes:  # it took the process down: real ranks ran it
            return True
        told = _as_case(case, how)
        found = [f for f in judge(outcome, told) if f.severity == "error"]
        if not found and (other := compare_runs(first, outcome, severity)) is not None:
            if not other.operations and severity == "warning" and not repeats():
                return False  # it returns the time, say: no interleaving's doing
            found = [other.with_(case=str(told))]
        known = {(f.code, f.severity) for f in explored.findings}
        explored.findings += [f for f in found if (f.code, f.severity) not in known]
        return any(f.severity in ("error", severity) for f in found)

    for how in _others(case, first):
        if differs(how, run(how)):
            return explored
    if case.interleaving is None and _is_open(first) and not explored.findings:
        _walk(case, first, run, differs)
    return explored


def _hazards(case: Case, first: Outcome, severity: Severity) -> list[Finding]:
    wanted = None
    if case.semantics in NCCL:
        wanted = [(case.semantics, None if case.capacity is None else float(case.capacity))]
    found = []
    capacity = None if case.capacity is None else float(case.capacity)
    for hazard in check_hazards(first.trace, severity, capacity):
        hanging = [name for name, what in hazard.details["semantics"].items() if what != "finishes"]
        if wanted is not None:
            hanging = [name for name in hanging if _is_wanted(name, *wanted[0])]
            if not hanging and hazard.cause != "tags-ignored":  # which nothing hangs by
                continue
        anywhere = f"{case.semantics or 'nccl-eager'} capacity=0"
        name, _, capacity = (hanging or [anywhere])[0].partition(" capacity=")
        found.append(hazard.with_(case=str(case.with_(semantics=name, capacity=capacity or None))))
    return found


def _is_wanted(name: str, semantics: str, capacity: float | None) -> bool:
    given, _, bytes_ = name.partition(" capacity=")
    return given == semantics and (capacity is None or float(bytes_) == capacity)


def _others(case: Case, first: Outcome) -> Iterator[Simulated]:
    """Yield the runs that every case is given besides the first."""
    if case.interleaving is not None:
        # The case is the run that differed from that in turn: both are needed to see it.
        yield Simulated(case.semantics or "gloo", guard=True)
        return
    semantics = case.semantics or "gloo"
    yield Simulated(semantics, interleaving=f"random:{case.seed}", guard=True)
    if case.semantics is None and not _is_decided(first):
        yield Simulated("buffered")
    if _is_open(first):
        for seed in range(1, SEEDS):
            yield Simulated(semantics, interleaving=f"random:{case.seed + seed}")


def _is_open(outcome: Outcome) -> bool:
    """Whether the order in which ranks go on may decide what the program does."""
    return bool(outcome.notes.get("depends_on_interleaving"))


def _is_decided(outcome: Outcome) -> bool:
    """Whether buffered sends are known to come to the same end, so that no run is needed.

    Where every receive names its source and nobody polls, what a rank does depends on the messages
    alone, not on when they come. Had a rank to wait for nothing in vain while sends waited for
    their receives, it waits for no more where they do not; and that no message's buffer is written
    while it is on its way is what the guarded run has seen, which comes before.
    """
    return not _is_open(outcome) and all(
        op.state is State.DONE for history in outcome.trace.ranks for op in history.ops.values()
    )


def _as_case(case: Case, how: Simulated) -> Case:
    semantics = how.semantics if how.semantics != "gloo" else case.semantics
    return case.with_(semantics=semantics, interleaving=how.interleaving or case.interleaving)


def _walk(
    case: Case,
    first: Outcome,
    run: Callable[[Simulated], Outcome],
    differs: Callable[[Simulated, Outcome], bool],
) -> None:
    """Go through every interleaving of a small program, up to a number of them."""
    if sum(len(history.ops) for history in first.trace.ranks) > SMALL:
        return
    choices: list[int] | None = []
    for _ in range(EXHAUSTIVE):
        if choices is None:
            return
        how = Simulated(case.semantics or "gloo", interleaving=spelled(choices))
        outcome = run(how)
        if differs(how, outcome):
            return
        choices = following(choices, outcome.notes["choices"])
