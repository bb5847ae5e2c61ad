"""Why ranks wait for ever: what of it the trace shows, and the smallest change that mends it.

The names of causes, of which a finding has one:

- ``tag-mismatch``, ``wrong-group``: what is waited for was posted, with another tag or in another
  group;
- ``wrong-peer``: it was posted for a third rank, or is waited for from one that it is not for;
- ``missing-send``, ``missing-receive``, ``missing-collective``: a rank that has finished left it
  out;
- ``order``: each rank of a circle waits for what the next one can post only later. Where buffered
  sends are shown to let it through, :mod:`harness.buffering` calls that ``needs-buffering``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from harness.checkers.phrases import join, place, ranks_text, verb
from harness.matching import channel_key
from harness.trace import Op, Status, Trace

ORDER = "order"


class Cause(NamedTuple):
    """A cause's name, its account and what to do."""

    name: str
    why: str | None
    help: str


def of_circle(trace: Trace, ops: Sequence[Op], missing: Mapping[Op, frozenset[int]]) -> Cause:
    """Return why the ranks of a circle wait, each in one of ``ops``, for the next.

    ``missing`` is what every stuck operation waits for.
    """
    crossed = _crossed(trace, ops) or _in_another_group(trace, ops, missing)
    return crossed or _order(ops)


def of_orphan(
    trace: Trace, op: Op, gone: Sequence[int], missing: Mapping[Op, frozenset[int]]
) -> Cause:
    """Return why ``op`` waits for ranks that have ``gone``; of a message or a collective."""
    if op.is_collective:
        return _in_another_group(trace, [op], missing) or _left_out(trace, op, gone)
    crossed = _crossed(trace, [op]) or _for_another(trace, op, missing) or _taken(trace, op)
    if crossed is not None:
        return crossed
    side, counterpart = ("send", "receive") if op.kind == "send" else ("receive", "send")
    absent = "one of them" if op.any_source else f"rank {gone[0]}"
    return Cause(
        f"missing-{counterpart}",
        None,
        f"post the matching {counterpart} on {absent}, or leave this {side} out",
    )


def _order(ops: Sequence[Op]) -> Cause:
    """Return the account of a circle in which each would come to the other's only later."""
    kinds = {op.kind for op in ops}
    first = ops[0]
    if kinds == {"send"}:
        return Cause(
            ORDER,
            "a send completes only when its receive is posted, and every rank of the circle "
            "sends first",
            _send_later(first) + ", or post both directions as one batch_isend_irecv",
        )
    if kinds == {"recv"}:
        return Cause(
            ORDER,
            "every rank of the circle waits for a message that the next one would send only later",
            f"let one of them send before it receives, say rank {first.rank} before {_at(first)}, "
            "or look for the send that is missing",
        )
    if kinds == {"send", "recv"}:
        send = next(op for op in ops if op.kind == "send")
        held = next((op for op in ops if op.rank == send.peer), None)
        before = "" if held is None else f" before {_at(held)}"
        return Cause(
            ORDER,
            "a send completes only when its receive is posted, and the receiver waits for "
            "something else first",
            f"{_send_later(send)}, or let rank {send.peer} post its receive{before}",
        )
    if kinds == {"new_group"}:
        return Cause(
            ORDER,
            "each rank makes another group, and new_group needs all of a group's members: "
            + join(f"rank {op.rank} makes one of {op.group.partition(':')[2]}" for op in ops),
            "call new_group with the same lists of ranks in the same order on every rank, also on "
            "those that are no members",
        )
    together = join(sorted({op.kind for op in ops if op.is_collective}))
    message = next((op for op in ops if not op.is_collective), None)
    if message is None:
        say = f"say rank {ops[-1].rank} to {_at(first)} before {_at(ops[-1])}"
    else:
        say = f"say rank {message.rank} to {_the_collective(ops)} before {_at(message)}"
    return Cause(
        ORDER,
        "the ranks have come to different operations: each needs the others in its own first",
        f"let all ranks of the group come to {together} in the same order as their other "
        f"operations, {say}",
    )


def _the_collective(ops: Sequence[Op]) -> str:
    return next(f"the {op.api} ({place(op.at)})" for op in ops if op.is_collective)


def _at(op: Op) -> str:
    """``its recv from rank 1 (file.py:3)``, ``the barrier (file.py:4)``."""
    if op.is_collective:
        return f"the {op.api} ({place(op.at)})"
    whom = "any rank" if op.peer is None else f"rank {op.peer}"
    return f"its {op.api} {'to' if op.kind == 'send' else 'from'} {whom} ({place(op.at)})"


def _send_later(op: Op) -> str:
    """Say how a rank need not stand in its send: the call, or the wait, that is to change."""
    where = f"rank {op.rank}'s {op.api} to rank {op.peer} ({place(op.at)})"
    if op.blocking:
        return f"make {where} an isend and wait for it after the receive"
    return f"wait for {where} only after the receive"


def _crossed(trace: Trace, ops: Iterable[Op]) -> Cause | None:
    """Tell when what a rank waits for was posted, under another tag or in another group.

    Only of an operation that its rank is blocked on as well, or has left behind for good: one
    that is merely posted ahead may be meant for a message that is still to come.
    """
    for op in ops:
        if op.is_collective or op.any_source:
            continue
        for other in trace.matcher.unpaired():
            if other.kind == op.kind or (other.rank, other.peer) != (op.peer, op.rank):
                continue
            if not _is_last_word(trace, other):
                continue
            if other.group != op.group:
                what, ours, theirs = "wrong-group", f"group {op.group}", f"group {other.group}"
            elif channel_key(other) != channel_key(op):
                what, ours, theirs = "tag-mismatch", f"tag {op.tag}", f"tag {other.tag}"
            else:
                continue
            return Cause(
                what,
                f"rank {op.rank}'s {op.api} has {ours}, and rank {other.rank}'s {other.api} "
                f"at {place(other.site)} has {theirs}: they never meet",
                "use the same tag and the same group on both sides",
            )
    return None


def _in_another_group(
    trace: Trace, ops: Iterable[Op], missing: Mapping[Op, frozenset[int]]
) -> Cause | None:
    """Tell when ranks come to one kind of collective in two groups, one of which is never whole.

    Where both could still be whole, the ranks may as well use the two groups in other orders.
    """
    finished = {h.rank for h in trace.ranks if h.status is Status.FINISHED}
    for op in ops:
        for other in missing:
            if not (op.is_collective and other.kind == op.kind and other.group != op.group):
                continue
            meant, wrong = (op, other) if missing[other] & finished else (other, op)
            if not missing[wrong] & finished or missing[meant] & finished:
                continue
            if wrong.rank not in missing[meant]:
                continue
            absent = min(missing[wrong] & finished)
            return Cause(
                "wrong-group",
                f"rank {wrong.rank}'s {wrong.api} is in group {wrong.group}, where rank {absent} "
                f"has finished without it; rank {meant.rank}'s at {place(meant.site)} waits for it "
                f"in group {meant.group}",
                f"call {wrong.api} in one group: rank {wrong.rank} in group {meant.group}, if that "
                f"is the one that is meant",
            )
    return None


def _for_another(trace: Trace, op: Op, missing: Mapping[Op, frozenset[int]]) -> Cause | None:
    """Tell when a third rank waits for what ``op`` is, or its peer has posted it for a third rank.

    The peer of ``op`` has finished. Had it any message with the rank of ``op``, one of those might
    be the one that is missing.
    """
    if op.any_source or op.peer is None:
        return None
    dealt = any(o.peer == op.rank and not o.is_collective for o in _ops(trace, op.peer))
    if not dealt:
        for other in missing:
            here = (other.peer, other.group, other.tag) == (op.rank, op.group, op.tag)
            if here and other.kind != op.kind:
                side = "to" if op.kind == "send" else "from"
                return Cause(
                    "wrong-peer",
                    f"rank {op.rank} has no message with rank {op.peer}, and rank {other.rank}'s "
                    f"{other.api} at {place(other.at)} waits for it",
                    f"let rank {op.rank}'s {op.api} be {side} rank {other.rank}, not {op.peer}; if "
                    f"that is meant, rank {op.peer} lacks its part",
                )
    for other in trace.matcher.unpaired():
        if other.rank == op.peer and other.kind != op.kind and other.peer != op.rank:
            if (other.group, other.tag) != (op.group, op.tag) or not _stays(trace, other):
                continue
            return Cause(
                "wrong-peer",
                f"rank {other.rank}'s {other.api} at {place(other.site)} is for rank {other.peer}, "
                f"which never takes part in it, and rank {op.rank} waits for one",
                f"let that {other.api} name rank {op.rank}, not {other.peer}",
            )
    return None


def _stays(trace: Trace, op: Op) -> bool:
    """Whether a posted operation's peer has finished, so that it never meets anything."""
    return op.peer is not None and trace.ranks[op.peer].status is Status.FINISHED


def _taken(trace: Trace, op: Op) -> Cause | None:
    """Tell when the message for ``op`` was taken by a receive from any source before it."""
    if op.kind != "recv" or op.any_source:
        return None
    left = [
        send
        for send in trace.matcher.unpaired()
        if send.kind == "send" and (send.peer, send.group, send.tag) == (op.rank, op.group, op.tag)
    ]
    if not left:
        return None  # what was received from any rank was meant for that
    for other in _ops(trace, op.rank):
        if other.any_source and other.group == op.group and other.source == op.peer:
            return Cause(
                ORDER,
                f"rank {op.rank}'s {other.api} from any rank at {place(other.site)} took the "
                f"message of rank {op.peer}",
                f"receive what rank {op.peer} sends by name before the receive from any rank, or "
                "give the two kinds of message tags of their own",
            )
    return None


def _left_out(trace: Trace, op: Op, gone: Sequence[int]) -> Cause:
    """Name the collective that ranks have left out, where the lines of the others show it."""
    mine, theirs = _came_to(trace, op, op.rank), _came_to(trace, op, gone[0])
    surplus = len(mine) - len(theirs)
    parts = next(
        (i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a.site != b.site),
        len(theirs),
    )
    left = [o.site for o in theirs[parts:]]
    if [o.site for o in mine[parts + surplus :]] != left:
        parts = len(theirs)
    skipped = mine[parts] if parts < len(mine) else op
    sites = [o.site for o in theirs]
    alike = [r for r in gone if [o.site for o in _came_to(trace, op, r)] == sites]
    who = ranks_text(alike)
    what = f"the {skipped.api} at {place(skipped.site)}"
    often, less = (sum(o.site == skipped.site for o in ops) for ops in (mine, theirs))
    if less:
        return Cause(
            "missing-collective",
            f"rank {op.rank} comes to {what} {_times(often)}, and {who} {_times(less)}",
            f"every rank of the group must call {skipped.api} equally often: look at the bounds of "
            "the loop around it, or for what leaves it early",
        )
    return Cause(
        "missing-collective",
        f"{who} {verb(alike, 'leaves', 'leave')} out {what}, number {skipped.index} of the group, "
        "counted from 0",
        f"every rank of the group must call {skipped.api} equally often: move the one at "
        f"{place(skipped.site)} out of its condition, or make the condition the same on all ranks",
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _came_to(trace: Trace, op: Op, rank: int) -> list[Op]:
    """Return the collectives of the group of ``op`` that are counted together with it."""
    own = ("monitored_barrier", "new_group", "init_process_group")
    return [
        o
        for o in _ops(trace, rank)
        if o.is_collective
        and o.group == op.group
        and (o.kind == op.kind if op.kind in own else o.kind not in own)
    ]


def _ops(trace: Trace, rank: int) -> list[Op]:
    return sorted(trace.ranks[rank].ops.values(), key=lambda op: op.id)


def _is_last_word(trace: Trace, op: Op) -> bool:
    """Whether the rank of ``op`` is blocked on it, or has finished after it."""
    history = trace.ranks[op.rank]
    return history.status is Status.FINISHED or any(wait.op is op for wait in history.blocked)
