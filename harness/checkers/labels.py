"""Messages that a receive meant for another one took: shown by the actions on both sides.

A plan's actions say exactly what is sent and what a receive is for. The label of a call that
:mod:`pipeline.comms` makes outside a plan only counts the calls of its kind, and a step may send
its microbatches in any order, receive some of them by other means or post ahead: of such labels
only the direction is compared; and where a wrong gradient shows that it matters the stage, which a
call names itself on a rank that holds several.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from harness.checkers.phrases import a, operation
from harness.findings import Finding
from harness.matching import channel_key
from harness.trace import Op, State, Trace
from pipeline.actions import Action, Kind

Swap = tuple[Op, Op, str]  # send, receive, what differs between their actions

_CONTENT = {Kind.SEND_F: "activation", Kind.SEND_B: "gradient"}


def check_labels(trace: Trace, *, stages: bool = False) -> list[Finding]:
    """Return ``message-swap``, one for each pair of places, the earliest first.

    With ``stages`` also where two calls outside a plan name other stages. Only of pairs that
    certainly met. Where a message of the same channel was lost (its handle dropped, the post
    refused) a shift is that one's doing, and nothing is said.
    """
    places: dict[tuple[object, ...], list[Swap]] = {}
    for swap in _swaps(trace, stages):
        send, receive, what = swap
        places.setdefault((what, send.site, receive.site), []).append(swap)
    return sorted((_finding(same) for same in places.values()), key=lambda found: found.time_ns)


def _swaps(trace: Trace, stages: bool) -> Iterator[Swap]:
    operations = trace.operations()
    lost = {
        channel_key(op)
        for op in operations
        if op.state in (State.DROPPED, State.FAILED) and op.match is None and op.peer is not None
    }
    for op in operations:
        if op.kind != "send" or op.match is None or op.doubtful or op.action is None:
            continue
        what = _difference(op, op.match, stages)
        if what is not None and channel_key(op) not in lost:
            yield op, op.match, what


def _difference(send: Op, receive: Op, stages: bool) -> str | None:
    """Return what differs first: ``direction``, ``stage`` or ``microbatch``."""
    sent, taken = _parsed(send.action), _parsed(receive.action)
    if sent is None or taken is None or not (sent.kind.is_send and taken.kind.is_receive):
        return None  # posted within some other action, or by nobody who names actions
    wanted = sent.other_end
    if wanted.kind is not taken.kind:
        return "direction"
    planned = send.planned and receive.planned
    if (planned or stages) and wanted.stage != taken.stage:
        return "stage"
    return "microbatch" if planned and wanted.microbatch != taken.microbatch else None


@functools.lru_cache(maxsize=4096)
def _parsed(text: str | None) -> Action | None:
    try:
        return None if text is None else Action.parse(text)
    except ValueError:
        return None


def _finding(same: list[Swap]) -> Finding:
    send, receive, what = same[0]
    sent, taken = _parsed(send.action), _parsed(receive.action)
    assert sent is not None
    assert taken is not None
    details = {"what": what, "sent": str(sent), "received": str(taken)}
    ranks = {op.rank for pair in same for op in pair[:2]}
    return Finding(
        code="message-swap",
        message=(
            f"rank {receive.rank}'s {taken} took rank {send.rank}'s {sent}: "
            f"{_effect(sent, taken, what)}"
        ),
        help=(
            f"let rank {receive.rank} post its receives in the order in which rank {send.rank} "
            f"posts its sends: {sent.other_end} where {taken} stands, or move the send"
        ),
        ranks=tuple(sorted(ranks)),
        operations=(operation(send), operation(receive)),
        details=details | ({"times": len(same)} if len(same) > 1 else {}),
        time_ns=max(send.posted_ns, receive.posted_ns),
    )


def _effect(sent: Action, taken: Action, what: str) -> str:
    content = _CONTENT[sent.kind]
    if what == "direction":
        other = _CONTENT[taken.other_end.kind]
        return f"{a(content)} of microbatch {sent.microbatch} is used as {a(other)}"
    if what == "stage":
        meant = sent.other_end.stage
        return f"the {content} for stage {meant} is used on stage {taken.stage}"
    return (
        f"the {content} of microbatch {sent.microbatch} is used as that of microbatch "
        f"{taken.microbatch}"
    )
