"""The life of a request: dropped, never waited for, its buffer changed, its group destroyed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeGuard

from harness.checkers.phrases import operation, place
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
    return _by_place(
        (op for op in dropped if op.match is None or op.match.state is State.BLOCKED), _dropped
    )


def _dropped(op: Op) -> Finding:
    what = "send" if op.kind == "send" else "receive"
    fate = "was never delivered" if op.kind == "send" else "was never received"
    return Finding(
        code="dropped-request",
        message=(
            f"rank {op.rank} dropped the handle of its {op.api} {_towards(op)} before the {what} "
            f"had ended: the message {fate}"
        ),
        help="keep the handle that the call returns, and wait() for it before it goes out of scope",
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
    return _by_place((op for op in own if ended(op)), _unawaited)


def _unawaited(op: Op) -> Finding:
    return Finding(
        code="unawaited-request",
        severity="warning",
        message=f"rank {op.rank} never waited for its {op.api} {_towards(op)}",
        help="wait() for the handle before the buffer is used again, and before the program ends",
        ranks=(op.rank,),
        operations=(operation(op),),
        time_ns=op.ended_ns or op.posted_ns,
    )


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
    return _by_place(changed, _overwritten)


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
            f"rank {op.rank} {what} {op.api} {_towards(op)} before the wait for it"
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
                and op.state is State.POSTED
                and not _had_ended(trace, op, at)
            ]
            found += _by_place(
                pending,
                lambda op, at=at, site=site: Finding(  # type: ignore[misc]
                    code="early-destroy",
                    message=(
                        f"rank {op.rank} destroyed the process group at {place(site)} while its "
                        f"{op.api} {_towards(op)} was pending"
                    ),
                    help="wait() for every request before destroy_process_group()",
                    ranks=(op.rank,),
                    operations=(operation(op),),
                    time_ns=at,
                ),
            )
    return found


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
    """Make one finding for each place in the code: the first time, with how often it happened."""
    places: dict[object, list[Op]] = {}
    for op in ops:
        places.setdefault((op.site, op.api), []).append(op)
    found = []
    for same in places.values():
        finding = make(same[0])
        if len(same) > 1:
            ranks = tuple(sorted({op.rank for op in same} | set(finding.ranks)))
            finding = finding.with_(details=finding.details | {"times": len(same)}, ranks=ranks)
        found.append(finding)
    return found
