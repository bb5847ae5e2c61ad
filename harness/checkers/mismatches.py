"""Operations that met and disagree: collectives by their number, messages by their channel."""

from __future__ import annotations

from collections.abc import Iterator

from harness import differences
from harness.checkers.phrases import a, join, operation, place, ranks_text
from harness.findings import Finding
from harness.trace import Op, Trace


def check_collectives(trace: Trace) -> list[Finding]:
    """Return ``collective-mismatch`` for meetings whose ranks disagree, the earliest first."""
    found = []
    matcher = trace.matcher
    for meeting in [*matcher.disputed, *matcher.open]:
        met = matcher.meetings.get(meeting, {})
        ops = [met[rank] for rank in sorted(met)]
        difference = differences.of_collective(ops)
        if difference is None:
            continue
        what, values = difference
        said = join(f"rank {op.rank} {value}" for op, value in zip(ops, values, strict=True))
        found.append(
            Finding(
                code="collective-mismatch",
                message=f"ranks meet in collectives that disagree in {what}: {said}",
                help=_HELP[what],
                ranks=tuple(_odd(ops, values)),
                operations=tuple(operation(op) for op in ops),
                details={"what": what, "group": meeting[0], "number": ops[0].index},
                time_ns=_disagreed_ns(ops),
            )
        )
    return sorted(found, key=lambda finding: finding.time_ns)


def _disagreed_ns(ops: list[Op]) -> int:
    """Return when the first part that disagrees with an earlier one was posted."""
    posted = sorted(ops, key=lambda op: op.posted_ns)
    for count in range(2, len(posted)):
        if differences.of_collective(posted[:count]) is not None:
            return posted[count - 1].posted_ns
    return posted[-1].posted_ns


_HELP = {
    "kind": "let all ranks of the group call the same collectives in the same order",
    "element count": "pass tensors of equal size on all ranks, or use the variant with split sizes",
    "splits": "let each rank expect from another what that one sends it; exchange the sizes first",
    "dtype": "convert the tensors to one dtype before the call",
    "reduce op": "pass the same op on all ranks",
    "root": "pass the same src or dst, a global rank, on all ranks",
}


def _odd(ops: list[Op], values: list[str]) -> Iterator[int]:
    """Yield the ranks in the minority, all of them when there is none."""
    counts = {value: values.count(value) for value in values}
    most = max(counts.values())
    majority = [value for value, count in counts.items() if count == most]
    for op, value in zip(ops, values, strict=True):
        if len(majority) > 1 or value != majority[0]:
            yield op.rank


def check_messages(trace: Trace) -> list[Finding]:
    """Return ``shape-mismatch`` and ``dtype-mismatch`` for matched sends and receives."""
    found = []
    for pairs in trace.matcher.disputes.values():
        certain = [
            (send, receive)
            for send, receive in pairs
            if send.match is receive and not send.doubtful
        ]
        if certain:  # two places are one finding, however often they disagree
            found.append(_compare(*min(certain, key=lambda pair: pair[0].posted_ns)))
    return sorted(found, key=lambda finding: finding.time_ns)


def _compare(send: Op, receive: Op) -> Finding:
    common = {
        "ranks": (send.rank, receive.rank),
        "operations": (operation(send), operation(receive)),
        "time_ns": max(send.posted_ns, receive.posted_ns),
    }
    sent, taken = list(send.shape), list(receive.shape)
    if send.dtype != receive.dtype:
        return Finding(
            code="dtype-mismatch",
            message=(
                f"rank {send.rank} sends {send.dtype} and rank {receive.rank} receives into "
                f"{receive.dtype}: the bytes are taken for what they are not"
            ),
            help="make the receive buffer with the sender's dtype",
            details={"sent": send.dtype, "received": receive.dtype},
            **common,  # type: ignore[arg-type]
        )
    if send.numel != receive.numel:
        effect = (
            "the rest of the buffer keeps its old values"
            if send.numel < receive.numel
            else "the receiving rank is aborted by the backend"
        )
        return Finding(
            code="shape-mismatch",
            message=(
                f"rank {send.rank} sends {send.numel} elements {sent} and rank {receive.rank} "
                f"receives into {receive.numel} {taken}: {effect}"
            ),
            help="make the receive buffer of exactly the size that is sent",
            details={"sent": sent, "received": taken},
            **common,  # type: ignore[arg-type]
        )
    return Finding(
        code="shape-mismatch",
        severity="warning",
        message=(
            f"rank {send.rank} sends shape {sent} and rank {receive.rank} receives into "
            f"{taken}: as many elements, in another arrangement"
        ),
        help="right if the buffer is meant as flat storage; else make the shapes agree",
        details={"sent": sent, "received": taken},
        **common,  # type: ignore[arg-type]
    )


def check_skew(trace: Trace) -> list[Finding]:
    """Return ``collective-skew``: the same collective met from two places both ranks execute."""
    places = trace.matcher.places
    for first, other in trace.matcher.met_twice():
        both = {first.site, other.site}
        if (
            first.group not in trace.opaque
            and not (first.by_torch or other.by_torch)
            and both <= places[first.rank, first.group]
            and both <= places[other.rank, other.group]
        ):
            return [_skew(trace, first, other)]
    return []


def _is_one_ahead(trace: Trace, behind: Op, ahead: Op) -> bool:
    """Whether one rank goes on like the other, but without what that is at here."""
    one, other = (
        [
            o.site
            for o in sorted(trace.ranks[op.rank].ops.values(), key=lambda o: o.id)
            if o.is_collective and (o.group, o.kind) == (op.group, op.kind) and o.id > op.id
        ]
        for op in (behind, ahead)
    )
    shifted = one[: len(other) + 1]
    return bool(one) and [ahead.site, *other][: len(shifted)] == shifted


def _skew(trace: Trace, first: Op, other: Op) -> Finding:
    ahead = [p for p in ((first, other), (other, first)) if _is_one_ahead(trace, *p)]
    return Finding(
        code="collective-skew",
        severity="warning",
        message=(
            f"{first.kind} number {first.index} pairs {place(first.site)} on rank {first.rank} "
            f"with {place(other.site)} on rank {other.rank}, and both ranks come to both places"
        ),
        help=(
            f"let rank {ahead[0][1].rank} come to the {first.kind} at {place(ahead[0][0].site)} as "
            f"rank {ahead[0][0].rank} does: it leaves it out, and is one ahead from there on"
            if len(ahead) == 1
            else f"look for {a(first.kind)} that one of {ranks_text([first.rank, other.rank])} "
            "leaves out before these, or calls in another order"
        ),
        ranks=(first.rank, other.rank),
        operations=(operation(first), operation(other)),
        details={"number": first.index, "group": first.group},
        time_ns=max(first.posted_ns, other.posted_ns),
    )
