"""Operations that met and disagree: collectives by their number, messages by their channel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from harness.checkers.phrases import join, operation, place, ranks_text
from harness.findings import Finding
from harness.matching import sequence_of
from harness.trace import Op, State, Trace

# The same collective under two names: what a backend runs for them is the same.
_FAMILY = {
    "all_gather_into_tensor": "all_gather",
    "all_gather_into_tensor_coalesced": "all_gather_coalesced",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor",
}


def check_collectives(trace: Trace) -> list[Finding]:
    """Return ``collective-mismatch`` for meetings whose ranks disagree, the earliest first."""
    found = []
    for (group, _, _), met in trace.matcher.meetings.items():
        ops = [met[rank] for rank in sorted(met)]
        difference = _difference(ops)
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
                details={"what": what, "group": group, "number": ops[0].index},
                time_ns=max(op.posted_ns for op in ops),
            )
        )
    return sorted(found, key=lambda finding: finding.time_ns)


_HELP = {
    "kind": "let all ranks of the group call the same collectives in the same order",
    "element count": "pass tensors of equal size on all ranks, or use the variant with split sizes",
    "dtype": "convert the tensors to one dtype before the call",
    "reduce op": "pass the same op on all ranks",
    "root": "pass the same src or dst, a global rank, on all ranks",
}


def _difference(ops: list[Op]) -> tuple[str, list[str]] | None:
    """Return what differs first, and each rank's value of it."""
    kinds = [_FAMILY.get(op.kind, op.kind) for op in ops]
    if len(set(kinds)) > 1:
        return "kind", [op.kind for op in ops]
    if len({op.root for op in ops}) > 1:
        return "root", [f"root {op.root}" for op in ops]
    if not any(op.splits for op in ops) and len({op.numel for op in ops}) > 1:
        return "element count", [f"{op.numel} elements" for op in ops]
    if len({op.dtype for op in ops if op.dtype}) > 1:
        return "dtype", [op.dtype for op in ops]
    if len({op.reduce_op for op in ops}) > 1:
        return "reduce op", [str(op.reduce_op) for op in ops]
    return None


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
    found: dict[tuple[object, ...], Finding] = {}
    for send in trace.operations():
        receive = send.match
        if send.kind != "send" or receive is None:
            continue
        finding = _compare(send, receive)
        if finding is not None:
            found.setdefault((finding.code, finding.severity, send.site, receive.site), finding)
    return sorted(found.values(), key=lambda finding: finding.time_ns)


def _compare(send: Op, receive: Op) -> Finding | None:
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
    if send.shape != receive.shape:
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
    return None


def check_skew(trace: Trace) -> list[Finding]:
    """Return ``collective-skew``: the same collective met from two places both ranks execute."""
    places: dict[tuple[int, str], set[object]] = defaultdict(set)
    for met in trace.matcher.meetings.values():
        for op in met.values():
            places[op.rank, op.group].add(op.site)
    for met in trace.matcher.meetings.values():
        ops = [met[rank] for rank in sorted(met)]
        first = ops[0]
        for other in ops[1:]:
            both = {first.site, other.site}
            if (
                len(both) == 2
                and first.kind == other.kind
                and not sequence_of(first)
                and both <= places[first.rank, first.group]
                and both <= places[other.rank, other.group]
                and State.FAILED not in (first.state, other.state)
            ):
                return [_skew(first, other)]
    return []


def _skew(first: Op, other: Op) -> Finding:
    return Finding(
        code="collective-skew",
        severity="warning",
        message=(
            f"{first.kind} number {first.index} pairs {place(first.site)} on rank {first.rank} "
            f"with {place(other.site)} on rank {other.rank}, and both ranks come to both places"
        ),
        help=(
            f"look for a {first.kind} that one of {ranks_text([first.rank, other.rank])} "
            "leaves out before these"
        ),
        ranks=(first.rank, other.rank),
        operations=(operation(first), operation(other)),
        details={"number": first.index, "group": first.group},
        time_ns=max(first.posted_ns, other.posted_ns),
    )
