"""``nccl-hazard``: a run that finished, and would hang or mix up messages under NCCL."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from harness.checkers.phrases import ranks_text
from harness.findings import Finding, Operation, Severity
from harness.hazards.queues import Semantics
from harness.hazards.replay import Replay
from harness.hazards.scripts import Post, Script, Unread, read_scripts
from harness.hazards.tags import Mixed, find_mixed
from harness.hazards.tangle import Tangle, find_tangle
from harness.hazards.words import clauses, help_for, operation_of, sentence, site_of, under
from harness.trace import Op, Site, Trace
from harness.worlds.simulated.request import Request

Condition = tuple[Semantics, float]

CONDITIONS: tuple[Condition, ...] = (
    ("nccl-eager", inf),
    ("nccl-lazy", inf),
    ("nccl-eager", 0),
    ("nccl-lazy", 0),
)
"""Both ends of NCCL's capacity, which is unknown in between; the more lenient end first."""


@dataclass(frozen=True, slots=True)
class Hang:
    """What one semantics and capacity makes of the scripts, where that is a hang."""

    semantics: Semantics
    capacity: float
    replay: Replay
    tangle: Tangle


def check_hazards(
    trace: Trace, severity: Severity = "warning", capacity: float | None = None
) -> list[Finding]:
    """Return an ``nccl-hazard`` for each root cause for which a finished run would fail on NCCL.

    ``capacity``, in bytes, is looked at besides none and any amount.
    Empty for a run that is safe, and for one that cannot be analysed (:func:`why_not_analysed`).
    """
    scripts = read_scripts(trace)
    if isinstance(scripts, Unread):
        return []
    conditions = conditions_with(capacity)
    hangs = find_hangs(scripts, conditions)
    told = _verdicts(hangs, conditions)
    found: list[Finding] = []
    if mixed := find_mixed(scripts):
        found.append(_mixed_finding(mixed, told, severity))
    for same in by_root_cause(hangs):
        finding = hang_finding(same, told, severity)
        if finding.cause == "needs-capacity":
            space = sufficient_capacity(scripts, same[0].semantics)
            finding = finding.with_(details=finding.details | {"finishes_with_bytes": space})
        if not _overlaps(finding, found):
            found.append(finding)
    return found


def check_tags(trace: Trace, semantics: str) -> Finding | None:
    """Return what NCCL makes of a run that hangs where messages are told apart by their tags.

    It has none: what was posted until then meets in the order of posting. None where that is as
    the tags have it, or the trace tells too little.
    """
    scripts = read_scripts(trace, finished=False)
    if isinstance(scripts, Unread):
        return None
    mixed = find_mixed(scripts)
    told = {semantics: "mixes messages up"}
    return _mixed_finding(mixed, told, "error") if mixed else None


def why_not_analysed(trace: Trace) -> str | None:
    """Say why a trace tells too little for :func:`check_hazards`; None if it tells enough."""
    scripts = read_scripts(trace)
    return scripts.why if isinstance(scripts, Unread) else None


def conditions_with(capacity: float | None) -> tuple[Condition, ...]:
    """Return :data:`CONDITIONS`, and in their middle those of another capacity."""
    if capacity is None or capacity in (0, inf):
        return CONDITIONS
    between: list[Condition] = [("nccl-eager", capacity), ("nccl-lazy", capacity)]
    return (*CONDITIONS[:2], *between, *CONDITIONS[2:])


def find_hangs(
    scripts: Sequence[Script], conditions: Sequence[Condition] = CONDITIONS
) -> list[Hang]:
    """Return the conditions under which the scripts do not come to their end."""
    hangs = []
    for semantics, capacity in conditions:
        replay = Replay(scripts, semantics, capacity)
        tangle = None if replay.finishes else find_tangle(replay)
        if tangle is not None:
            hangs.append(Hang(semantics, capacity, replay, tangle))
    return hangs


def sufficient_capacity(scripts: Sequence[Script], semantics: Semantics) -> int:
    """Return the smallest power of two of bytes with which scripts finish that do so with ``inf``.

    More capacity never makes a hang, so that halving finds it.
    """
    steps = (step for script in scripts for step in script)
    sent = sum(step.size for step in steps if isinstance(step, Post) and step.kind == "send")
    exponents = range(max(sent, 1).bit_length() + 1)
    least = bisect_left(
        exponents, True, key=lambda power: Replay(scripts, semantics, 1 << power).finishes
    )
    return int(1 << exponents[least])


def cause_of(hang: Hang) -> str:
    """Name why the scripts hang.

    ``batch-shape``: one end of a message is in a batch and the other is not, or a wait for part of
    a batch waits for the rest as well. ``lazy-communicator``: ranks come to the first use of their
    communicators in different orders. ``queue-order``: unrelated operations stand in one queue.
    ``needs-capacity``: the sends would have to be done before their receives.
    """
    links = hang.tangle.links
    if any(meets_elsewhere(hang, request) for request in hang.tangle.requests):
        return "batch-shape"
    if any(link.why == "creation" for link in links):
        return "lazy-communicator"
    if any(link.why == "batch" for link in links):
        return "batch-shape"
    return "queue-order" if hang.capacity == inf else "needs-capacity"


def meets_elsewhere(hang: Hang, request: Request) -> Op | None:
    """Return its counterpart of the finished run, if that is on another communicator here."""
    op = request.payload
    other = op.match if isinstance(op, Op) else None
    if hang.semantics != "nccl-lazy" or request.match is not None or other is None:
        return None
    assert isinstance(op, Op)
    return other if (op.batch is None) != (other.batch is None) else None


def _verdicts(hangs: Iterable[Hang], conditions: Iterable[Condition]) -> dict[str, str]:
    stuck = {(hang.semantics, hang.capacity) for hang in hangs}
    order = sorted(conditions)
    return {condition_text(*each): "hangs" if each in stuck else "finishes" for each in order}


def condition_text(semantics: Semantics, capacity: float) -> str:
    """``nccl-eager capacity=0``."""
    return f"{semantics} capacity={'inf' if capacity == inf else int(capacity)}"


def by_root_cause(hangs: list[Hang]) -> list[list[Hang]]:
    """Gather the hangs of the same ranks, and those that share a place in the user's code.

    The more lenient condition, which comes first, decides what the cause is.
    """
    causes: list[list[Hang]] = []
    for hang in hangs:
        for known in causes:
            if any(
                hang.tangle.ranks == other.tangle.ranks or _sites(hang) & _sites(other)
                for other in known
            ):
                known.append(hang)
                break
        else:
            causes.append([hang])
    return causes


def _sites(hang: Hang) -> set[tuple[int, Site]]:
    return {
        (request.rank, site)
        for request in hang.tangle.requests
        if (site := site_of(request)) is not None
    }


def hang_finding(same: list[Hang], told: dict[str, str], severity: Severity) -> Finding:
    """Return the finding of hangs with one root cause; ``told`` is what happens under which."""
    hang = same[0]
    cause = cause_of(hang)
    ranks = hang.tangle.ranks
    said = clauses(hang.tangle, hang.replay)
    apart = _apart(hang)
    told_at_once = sentence(hang.tangle, hang.replay) + (f"; {apart}" if apart else "")
    ops = [op for r in hang.tangle.requests if isinstance(op := r.payload, Op)]
    return Finding(
        code="nccl-hazard",
        severity=severity,
        message=f"{ranks_text(ranks)} would hang on {under(each_text(same))}: {told_at_once}",
        help=help_for(cause, hang.tangle, hang.replay),
        cause=cause,
        ranks=tuple(ranks),
        operations=_operations(hang),
        details={"semantics": told, "chain": said, "circle": hang.tangle.is_circle},
        time_ns=max((op.posted_ns for op in ops), default=0),
    )


def _apart(hang: Hang) -> str | None:
    """Tell of one message whose ends are on different communicators, if there is one."""
    for request in hang.tangle.requests:
        if (other := meets_elsewhere(hang, request)) is not None:
            ranks = (other.rank, request.rank)
            single, batched = ranks if other.batch is None else ranks[::-1]
            return (
                f"rank {batched} has its end of that message in a batch and rank {single} has not, "
                "which are two communicators"
            )
    return None


def each_text(hangs: Iterable[Hang]) -> list[str]:
    """Name the conditions of these hangs."""
    return sorted(condition_text(hang.semantics, hang.capacity) for hang in hangs)


def _operations(hang: Hang) -> tuple[Operation, ...]:
    """Return the blocked waits of the ranks, and what of theirs holds the queues."""
    found: dict[tuple[Any, ...], Operation] = {}
    for rank in hang.tangle.ranks:
        host = hang.replay.hosts[rank]
        if not host.finished:
            at = hang.replay.awaited(rank)
            in_wait = host.in_call is None
            found[rank, id(at.payload)] = operation_of(at, "blocked", in_wait=in_wait)
        for request in hang.tangle.requests:
            if request.rank == rank:
                is_first = not any(
                    obstacle.why == "behind" for obstacle in hang.replay.queues.obstacles(request)
                )
                state = "first in its queue" if is_first else "queued"
                found.setdefault((rank, id(request.payload)), operation_of(request, state))
    for request in hang.tangle.requests:
        if (other := meets_elsewhere(hang, request)) is not None:
            state = "outside a batch" if other.batch is None else "in a batch"
            found.setdefault((other.rank, id(other)), operation_of(other, state))
    return tuple(found.values())


def _mixed_finding(mixed: list[Mixed], told: dict[str, str], severity: Severity) -> Finding:
    first = mixed[0]
    send, receive = first.send, first.receive
    details = {"semantics": told, "pairs": len(mixed), "differs_in": first.differs_in}
    return Finding(
        code="nccl-hazard",
        severity=severity,
        message=(
            f"rank {receive.rank} would take the wrong message from rank {send.rank} on NCCL, "
            f"which ignores tags: its {receive.api} with tag {receive.tag} comes "
            f"{first.place_text}, and so gets what was sent with tag {send.tag}"
        ),
        help="post the receives of one rank's messages in the order in which it sends them, or "
        "give each kind of message a group of its own",
        cause="tags-ignored",
        ranks=(send.rank, receive.rank),
        operations=tuple(operation_of(end, "meets the wrong one") for end in (send, receive)),
        details=details,
        time_ns=max(send.posted_ns, receive.posted_ns),
    )


def _overlaps(finding: Finding, others: Iterable[Finding]) -> bool:
    """Whether it is another sign of messages that have met the wrong ones."""
    places = {(op.rank, op.file, op.line) for op in finding.operations}
    return any(places & {(op.rank, op.file, op.line) for op in o.operations} for o in others)
