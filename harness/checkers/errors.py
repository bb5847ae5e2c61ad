"""Ranks that raised, died, or never came to an end."""

from __future__ import annotations

import re
from typing import Any

from harness.checkers.deadlock import why_unproved
from harness.checkers.dragged import sounds_dragged
from harness.checkers.phrases import join, operation, ranks_text, verb
from harness.findings import Finding, Operation
from harness.trace import Frame, Op, RankError, State, Status
from harness.worlds import Outcome, RankOutcome
from harness.worlds.exits import describe_exit

# What differs from rank to rank in the same refusal: the log's own mark, addresses and ports.
_NUMBERED = re.compile(r"\[[^\]]*\](:\d+\$?\d*)?|0x[0-9a-f]+")


def check_errors(outcome: Outcome) -> list[Finding]:
    """Return ``rank-death``, ``rank-error`` and ``invalid-argument``; the dragged-along folded."""
    deaths = [r for r in outcome.ranks if _died(outcome, r)]
    raised = [r for r in outcome.ranks if r.error is not None]
    own = [r for r in raised if r.error is not None and not _dragged(r.error)]
    noticed = [r.error.time_ns for r in raised if r.error is not None and r not in own]
    found = [_death(outcome, rank, noticed) for rank in deaths]
    groups: dict[tuple[Any, ...], list[RankOutcome]] = {}
    for rank in own or ([] if deaths else raised):
        assert rank.error is not None
        where = rank.error.frames[-1][:3] if rank.error.frames else None
        same = _NUMBERED.sub("", rank.error.message) if rank.error.refused else where
        groups.setdefault((rank.error.type, same), []).append(rank)
    found += [_error(outcome, ranks) for ranks in groups.values()]
    dragged = sorted(r.rank for r in raised if r not in own) if own or deaths else []
    if dragged:
        found = [f.with_(details=f.details | {"dragged_along": dragged}) for f in found]
    return sorted(found, key=lambda finding: finding.time_ns)


def only_dragged(outcome: Outcome) -> list[int]:
    """Return the ranks whose waits were broken off, when no rank has failed by itself."""
    errors = {r.rank: r.error for r in outcome.ranks if r.error is not None}
    if any(_died(outcome, r) for r in outcome.ranks) or not all(map(_dragged, errors.values())):
        return []
    return sorted(errors)


def _died(outcome: Outcome, rank: RankOutcome) -> bool:
    return outcome.trace.ranks[rank.rank].status is Status.DIED


def _dragged(error: RankError) -> bool:
    return error.in_comm and not error.refused and sounds_dragged(error.message)


def _death(outcome: Outcome, rank: RankOutcome, noticed: list[int]) -> Finding:
    """Return a death, at the time of the first error by which another rank ``noticed`` it.

    The ranks' connections break before anybody reads the dead process's status.
    """
    history = outcome.trace.ranks[rank.rank]
    last = _last_operation(list(history.ops.values()))
    details: dict[str, Any] = {"exit_status": rank.exit_status}
    if rank.output.strip():
        details["output"] = rank.output.strip().splitlines()[-5:]
    return Finding(
        code="rank-death",
        message=f"rank {rank.rank} {describe_exit(rank.exit_status)}",
        help=_help_for_a_death(rank, last),
        ranks=(rank.rank,),
        operations=() if last is None else (operation(last),),
        details=details,
        time_ns=min([history.ended_ns or history.last_ns, *noticed]),
    )


def _help_for_a_death(rank: RankOutcome, last: Op | None) -> str:
    if last is not None and last.splits and "SIGABRT" in describe_exit(rank.exit_status):
        return (
            f"compare the splits of {last.kind}: what each rank sends to another has to be what "
            "that one expects from it, as they are not sent along"
        )
    return (
        "look at what the rank printed last; SIGKILL from nobody is the kernel out of memory, "
        "SIGABRT and SIGSEGV come from native code"
    )


def _last_operation(ops: list[Op]) -> Op | None:
    blocked = [op for op in ops if op.state is State.BLOCKED]
    return max(blocked or ops, key=lambda op: op.id, default=None)


def _error(outcome: Outcome, ranks: list[RankOutcome]) -> Finding:
    first = min(ranks, key=lambda rank: rank.error.time_ns if rank.error else 0)
    error = first.error
    assert error is not None
    numbers = sorted(rank.rank for rank in ranks)
    refused = error.refused
    message = f"{ranks_text(numbers)} raised {error.type}: {error.message}"
    if refused:
        message = f"{ranks_text(numbers)} made a call that is refused: {error.message}"
    return Finding(
        code="invalid-argument" if refused else "rank-error",
        message=message,
        help=(
            "correct the argument as the message says"
            if refused
            else "mend what the traceback shows; it begins at your own code"
        ),
        ranks=tuple(numbers),
        operations=tuple(
            Operation(rank.rank, _call(rank.error), *_where(rank.error), state="raised")
            for rank in ranks
            if rank.error is not None and rank.error.frames
        ),
        details={"traceback": error.traceback, "type": error.type} | error.details,
        time_ns=error.time_ns,
    )


def _call(error: RankError) -> str:
    return f"raise {error.type}"


def _where(error: RankError) -> tuple[str, int, str]:
    frame: Frame = error.frames[-1]
    return frame.file, frame.line, frame.function


def check_timeout(outcome: Outcome, suspected: Finding | None = None) -> list[Finding]:
    """Return ``timeout`` for a case that came to no end and shows no proof of why.

    ``suspected`` is the deadlock or orphaned wait that it would be if the ranks that may still
    go on by themselves did not: told, and called a suspicion.
    """
    if outcome.ending != "timeout":
        return []
    running = [r for r in outcome.ranks if outcome.trace.ranks[r.rank].status is Status.RUNNING]
    numbers = [rank.rank for rank in running]
    if not numbers:
        return []
    stacks = {
        str(rank.rank): [f"{f.file}:{f.line} in {f.function}" for f in rank.stack]
        for rank in running
    }
    return [
        Finding(
            code="timeout",
            message=(
                f"{ranks_text(numbers)} made no progress for {outcome.timeout_s:g} s, "
                + (
                    "and no deadlock can be proved"
                    if suspected is None
                    else _looks_like(outcome, suspected)
                )
            ),
            help=(
                f"look where {verb(numbers, 'it is', 'they are')}: {_what_holds(running, outcome)}"
                if suspected is None
                else f"{suspected.help}; if something was still to come, give a longer --timeout"
            ),
            ranks=tuple(numbers),
            operations=_standing_operations(outcome, running, suspected),
            details={"stacks": stacks} | _suspicion(suspected),
            time_ns=max(outcome.trace.ranks[rank].last_ns for rank in numbers),
        )
    ]


def _what_holds(running: list[RankOutcome], outcome: Outcome) -> str:
    """Name what may hold ranks that show no wait; gloo never ends a message's second wait."""
    ended = any(
        op.state is State.DONE and not op.blocking and not op.is_collective
        for rank in running
        for op in outcome.trace.ranks[rank.rank].ops.values()
    )
    second = "a second wait for the request of a message, which gloo never ends, " if ended else ""
    simulated = "simulated" in outcome.notes
    real = (
        "; a simulated rank waits for another by torch.distributed only: where it does so by a "
        "file, a socket or a variable, use --backend gloo"
    )
    return (
        f"a loop, a poll that never ends, {second}or a long computation; for the last, give a "
        f"longer --timeout{real if simulated else ''}"
    )


def _looks_like(outcome: Outcome, suspected: Finding) -> str:
    """Say what it seems to be, and why that is not proved."""
    reasons = join(why_unproved(outcome.trace) or ["the ranks may still go on by themselves"])
    return f"and it looks as if {suspected.message}; that is no proof, for {reasons}"


def _suspicion(suspected: Finding | None) -> dict[str, Any]:
    if suspected is None:
        return {}
    told = suspected.to_json()
    chosen = ("code", "message", "ranks", "cause", "operations", "details")
    return {"suspected": {name: told[name] for name in chosen if name in told}}


def _standing_operations(
    outcome: Outcome, running: list[RankOutcome], suspected: Finding | None
) -> tuple[Operation, ...]:
    """Return what each rank was at, the suspected circle's own waits first."""
    shown = () if suspected is None else suspected.operations
    known = {operation.rank for operation in shown}
    return (*shown, *(_standing(outcome, rank) for rank in running if rank.rank not in known))


def _standing(outcome: Outcome, rank: RankOutcome) -> Operation:
    """Return what a rank was at when time ran out."""
    history = outcome.trace.ranks[rank.rank]
    if history.blocked:
        return operation(history.blocked[0].op)
    if rank.stack:
        frame = rank.stack[-1]
        return Operation(
            rank.rank, "running", frame.file, frame.line, frame.function, state="running"
        )
    return Operation(rank.rank, "running", "<unknown>", 0, "<unknown>", state="running")


def followed_by(findings: list[Finding]) -> list[str]:
    """Return one line for each consequence that is folded into a cause, none of them twice."""
    return list(dict.fromkeys(f"{finding.code}: {finding.message}" for finding in findings))


_WITHOUT = "grad can be implicitly created only for scalar outputs"


def began_with_none(error: RankError) -> bool:
    """Whether a backward was begun without a gradient, as of an input that takes none."""
    return error.type == "RuntimeError" and error.message.startswith(_WITHOUT)
