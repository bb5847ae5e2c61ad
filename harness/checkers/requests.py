"""The life of a request: dropped, never waited for, its buffer changed, its group destroyed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeGuard

from harness.checkers.phrases import call, operation, place, ranks_text
from harness.findings import Finding
from harness.trace import UNKNOWN_SITE, Op, Site, State, Trace


def check_dropped(trace: Trace, backend: str = "gloo") -> list[Finding]:
    """Return ``dropped-request`` for handles dropped while pending.

    On gloo such a send is delivered only if its receive was already posted. NCCL keeps what was
    posted, so there the handle is not needed.
    """
    if backend == "nccl":
        return []
    dropped = [op for op in _all(trace) if op.state is State.DROPPED and not op.is_collective]
    lost = [op for op in dropped if op.match is None or op.match.state is State.BLOCKED]
    return [
        *_by_place((op for op in lost if not _never_waited(op)), _dropped),
        *_by_place((op for op in lost if _never_waited(op)), _ignored),
    ]


def _never_waited(op: Op) -> bool:
    """Whether a call that waits by itself came back without: the backend did nothing."""
    return op.api in ("send", "recv") and op.blocked_ns is None


def _ignored(op: Op) -> Finding:
    return Finding(
        code="invalid-argument",
        message=(
            f"rank {op.rank}'s {op.api} {_towards(op)} came back and did nothing: the group's "
            "backend has no part in a tensor of that device"
        ),
        help="pass a tensor that is on a device of the backend; one on meta has no data to send",
        ranks=(op.rank,),
        operations=(operation(op),),
        time_ns=op.posted_ns,
    )


def _dropped(op: Op) -> Finding:
    what = "send" if op.kind == "send" else "receive"
    fate = (
        "the message was never delivered" if op.kind == "send" else "it takes no message any more"
    )
    spare = "" if op.kind == "send" else "; leave out a receive for which nothing is sent"
    return Finding(
        code="dropped-request",
        message=(
            f"rank {op.rank} dropped the handle of its {call(op)} {_towards(op)} before the {what} "
            f"had ended: {fate}"
        ),
        help=(
            "keep the handle that the call returns, and wait() for it before it goes out of scope"
            + spare
        ),
        ranks=(op.rank,),
        operations=(operation(op),),
        time_ns=op.ended_ns or op.posted_ns,
    )


def check_unawaited(trace: Trace) -> list[Finding]:
    """Return ``unawaited-request``: it ended, and nobody waited for it."""

    def ended(op: Op) -> bool:
        if op.state is State.DROPPED:
            return op.is_collective or (op.match is not None and not op.match.pending)
        return op.state is State.POSTED and op.match is not None and not op.match.pending

    own = (op for op in _all(trace) if not op.by_torch)
    return _by_place((op for op in own if ended(op)), lambda op: _unawaited(op, trace))


def _unawaited(op: Op, trace: Trace) -> Finding:
    absent = _absent(op, trace)
    return Finding(
        code="unawaited-request",
        severity="warning",
        message=(
            f"rank {op.rank} never waited for its {call(op)} {_towards(op)}"
            + (f", and {ranks_text(absent)} never came to it" if absent else "")
        ),
        help=(
            f"call {op.api} on every rank of the group, and wait() for it on each"
            if absent
            else "wait() for the handle before the buffer is used again and the program ends"
        ),
        ranks=(op.rank,),
        operations=(operation(op),),
        time_ns=op.ended_ns or op.posted_ns,
    )


def _absent(op: Op, trace: Trace) -> list[int]:
    """Return the ranks that a collective still lacks; none where that is not known."""
    group = trace.groups.get(op.group)
    if not op.is_collective or group is None or op.group in trace.opaque:
        return []
    return sorted(set(group.ranks) - trace.matcher.met(op).keys())


def check_unreceived(trace: Trace) -> list[Finding]:
    """Return ``unreceived-message``: sends that nobody had received when all had ended."""
    sends = (op for op in trace.matcher.unpaired() if op.kind == "send")
    left = (
        op
        for op in sends
        if op.state in (State.POSTED, State.DONE) and not trace.matcher.may_be_taken(op)
    )
    return _by_place(sorted(left, key=lambda op: op.posted_ns), _unreceived)


def _unreceived(op: Op) -> Finding:
    return Finding(
        code="unreceived-message",
        message=f"rank {op.rank} sent {op.numel} elements {_towards(op)} that were never received",
        help=f"post the matching receive on rank {op.peer}, or leave this send out",
        ranks=(op.rank,) if op.peer is None else (op.rank, op.peer),
        operations=(operation(op),),
        time_ns=op.posted_ns,
    )


def check_buffers(trace: Trace) -> list[Finding]:
    """Return ``buffer-overwrite`` and ``early-read`` for buffers changed before their wait.

    An error where the counterpart was posted only after the wait had begun, so that the transfer
    was certainly still to come; else a warning, for it may have been over by then.
    """
    changed = [op for op in _all(trace) if op.overwritten]
    return [  # apart: one batch has both
        *_by_place((op for op in changed if op.kind == "send"), _overwritten),
        *_by_place((op for op in changed if op.kind == "recv"), _overwritten),
        *_by_place(
            (op for op in changed if op.is_collective and not op.by_torch),
            lambda op: _changed_meanwhile(op, trace, changed),
        ),
    ]


def _changed_meanwhile(op: Op, trace: Trace, changed: Sequence[Op]) -> Finding:
    """Return the finding on a collective whose tensor a rank wrote to before its wait.

    An error where some rank came to it only after another such rank had begun to wait.
    """
    same = [other for other in changed if (other.site, other.api) == (op.site, op.api)]
    certain = any(
        other.posted_ns > (one.blocked_ns or one.posted_ns)
        for one in same
        for other in trace.matcher.met(one).values()
    )
    return Finding(
        code="buffer-overwrite",
        severity="error" if certain else "warning",
        message=(
            f"rank {op.rank} wrote to a tensor of its {call(op)} {_towards(op)} before the wait "
            "for it"
        ),
        help="wait() for the handle before you change the tensor, or give the collective a clone",
        ranks=(op.rank,),
        operations=(operation(op),),
        details={"waited_at": place(op.at)},
        time_ns=op.blocked_ns or op.posted_ns,
    )


def _overwritten(op: Op) -> Finding:
    waited = op.blocked_ns or op.posted_ns
    late = op.match is not None and not op.doubtful and op.match.posted_ns > waited
    certain = late or op.touched is not None
    if op.kind == "send":
        code, what = "buffer-overwrite", "changed the tensor of its"
        help_ = "wait() for the send before you change the tensor, or send a clone"
    else:
        code, what = "early-read", "used the buffer of its"
        help_ = "wait() for the receive before you touch its buffer"
    return Finding(
        code=code,
        severity="error" if certain else "warning",
        message=(
            f"rank {op.rank} {what} {call(op)} {_towards(op)} before the wait for it"
            + (f", at {place(op.touched)}" if _has_place(op.touched) else "")
        ),
        help=help_,
        ranks=(op.rank,),
        operations=(operation(op),),
        details={"waited_at": place(op.at)}
        | ({"used_at": place(op.touched)} if _has_place(op.touched) else {}),
        time_ns=waited,
    )


def _has_place(site: Site | None) -> TypeGuard[Site]:
    return site is not None and site is not UNKNOWN_SITE


def check_destroyed(trace: Trace) -> list[Finding]:
    """Return ``early-destroy``: a group destroyed while sends or collectives were pending."""
    found = []
    for history in trace.ranks:
        for group, at, site in history.destroyed:
            pending = [
                op
                for op in history.ops.values()
                if op.group == group
                and op.kind != "recv"
                and op.posted_ns < at
                and _outlived(op, at)
                and not _had_ended(trace, op, at)
            ]
            found += _by_place(
                pending,
                lambda op, at=at, site=site: Finding(  # type: ignore[misc]
                    code="early-destroy",
                    message=(
                        f"rank {op.rank} destroyed the process group at {place(site)} while its "
                        f"{call(op)} {_towards(op)} was pending"
                    ),
                    help="wait() for every request before destroy_process_group()",
                    ranks=(op.rank,),
                    operations=(operation(op),),
                    time_ns=at,
                ),
            )
    return found


def _outlived(op: Op, at: int) -> bool:
    """Whether the operation was pending by then: its handle may have been dropped since."""
    if op.state is State.DROPPED:
        return op.ended_ns is not None and op.ended_ns >= at
    return op.state is State.POSTED


def _had_ended(trace: Trace, op: Op, at: int) -> bool:
    """Whether the operation may have ended by then: its counterparts were posted before."""
    if op.is_collective:
        group = trace.groups.get(op.group)
        met = trace.matcher.met(op)
        members = group.ranks if group is not None else ()
        return len(met) == len(members) and all(o.posted_ns < at for o in met.values())
    return op.match is not None and op.match.posted_ns < at


def _towards(op: Op) -> str:
    if op.is_collective:
        return f"(number {op.index} of the group)"
    if op.peer is None:
        return "from any rank"
    return f"{'to' if op.kind == 'send' else 'from'} rank {op.peer}"


def _all(trace: Trace) -> Iterable[Op]:
    return trace.operations()


def _by_place(ops: Iterable[Op], make: Callable[[Op], Finding]) -> list[Finding]:
    """Make one finding for each place in the code: the first time, and who else came to it."""
    places: dict[object, list[Op]] = {}
    for op in ops:
        places.setdefault((op.site, op.api), []).append(op)
    found = []
    for same in places.values():
        finding = make(same[0])
        if len(same) > 1:
            ranks = tuple(sorted({op.rank for op in same} | set(finding.ranks)))
            finding = finding.with_(details=finding.details | {"times": len(same)}, ranks=ranks)
        first_of = {op.rank: op for op in reversed(same)}
        if others := sorted(first_of.keys() - {same[0].rank}):
            finding = finding.with_(
                message=f"{finding.message}; {ranks_text(others)} likewise",
                operations=(*finding.operations, *(operation(first_of[rank]) for rank in others)),
            )
        found.append(finding)
    return found
