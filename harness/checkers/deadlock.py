"""Which ranks can never go on: proved from what is posted, not from the time it takes.

A rank that runs may still post anything. A rank blocked on a paired operation goes on when the
backend has moved the data. A rank blocked on an unpaired one goes on only if the rank it waits
for comes to post the counterpart. What is left after following those rules to their end is stuck
for ever, however fast or slow the machine is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from harness.checkers import causes
from harness.checkers.phrases import operation, place, ranks_text, verb
from harness.findings import Finding
from harness.semantics import needed_ranks, needs_nobody
from harness.trace import Op, RankTrace, Status, Trace, Wait


@dataclass(frozen=True, slots=True)
class Stuck:
    """A wait that never ends: what its rank is blocked on, and which ranks never come."""

    wait: Wait
    missing: frozenset[int]

    @property
    def op(self) -> Op:
        """The operation that never ends."""
        return self.wait.op


Waits = tuple[Stuck, ...]
"""All that one rank is blocked on: one wait for each of its threads."""


def find_stuck(trace: Trace, backend: str = "gloo", *, give_up: bool = False) -> dict[int, Waits]:
    """Return the ranks that can never go on.

    With ``give_up`` a wait that has a timeout of its own, and a rank with another thread that
    might still post, count as blocked too: no proof, but the best account once time has run out.
    """
    blocked = {
        history.rank: history.blocked
        for history in trace.ranks
        if history.status is Status.RUNNING and _is_blocked(history, give_up)
    }
    live = {
        history.rank
        for history in trace.ranks
        if history.status is Status.RUNNING and history.rank not in blocked
    }
    missing = {wait.op: _missing(trace, wait.op, backend) for ws in blocked.values() for wait in ws}
    changed = True
    while changed:
        changed = False
        for rank, waits in blocked.items():
            if rank not in live and any(_may_end(w.op, missing[w.op], live) for w in waits):
                live.add(rank)
                changed = True
    return {
        rank: tuple(Stuck(wait, missing[wait.op] - live) for wait in waits)
        for rank, waits in blocked.items()
        if rank not in live
    }


def _is_blocked(history: RankTrace, give_up: bool) -> bool:
    waits = history.blocked
    if not waits:
        return False
    if give_up:
        return True
    return not any(wait.gives_up for wait in waits) and len(waits) > waits[-1].other_threads


def _missing(trace: Trace, op: Op, backend: str) -> frozenset[int]:
    """Return the ranks that have to post something for ``op`` to end; none: it will end."""
    group = trace.groups.get(op.group)
    members = group.ranks if group is not None else tuple(range(trace.world_size))
    if op.is_collective:
        if needs_nobody(op.kind, op.numel, backend):
            return frozenset()
        met = trace.matcher.met(op)
        # It passes only when all have come, and it always gives up by itself: never a proof.
        all_come = op.kind == "monitored_barrier"
        needed = set(members) - {op.rank} if all_come else needed_ranks(op, members, backend)
        return frozenset(needed - met.keys())
    if op.any_source:
        free = trace.matcher.may_receive(op)
        return frozenset() if free else frozenset(members) - {op.rank}
    if op.match is not None or op.peer is None:
        return frozenset()
    if op.kind == "send" and trace.matcher.may_be_taken(op):
        return frozenset()
    return frozenset({op.peer})


def _may_end(op: Op, missing: frozenset[int], live: set[int]) -> bool:
    if not missing:
        return True
    return bool(missing & live) if op.any_source else missing <= live


def check(trace: Trace, backend: str = "gloo", *, give_up: bool = False) -> Finding | None:
    """Return the deadlock or the orphaned wait that holds the stuck ranks; None if none is.

    Ranks that wait only for a rank that raised or died give no finding: that is the cause.
    """
    stuck = find_stuck(trace, backend, give_up=give_up)
    if not stuck:
        return None
    cycle = _shortest_cycle({rank: _waited_for(waits) for rank, waits in stuck.items()})
    return _deadlock(trace, stuck, cycle) if cycle else _orphan(trace, stuck)


def why_unproved(trace: Trace) -> list[str]:
    """Say of each blocked rank that may yet go on by itself why it may."""
    reasons = []
    for history in trace.ranks:
        waits = history.blocked
        if history.status is not Status.RUNNING or not waits or _is_blocked(history, False):
            continue
        if any(wait.gives_up for wait in waits):
            reasons.append(f"rank {history.rank}'s wait has a timeout of its own")
        else:
            reasons.append(f"rank {history.rank} has another thread, which may still post")
    return reasons


def before_failure(trace: Trace, ranks: Iterable[int]) -> Trace:
    """Return the trace as it was before the waits of ``ranks`` were broken off.

    A wait that can never end is broken off when the backend's timeout comes, or when the rank
    it waits for destroys its group or leaves: those ranks count as still waiting.
    """
    histories = list(trace.ranks)
    for rank in ranks:
        history = histories[rank]
        broken = [op for op in history.ops.values() if op.broken_off]
        if broken:
            op = max(broken, key=lambda op: op.ended_ns or 0)
            wait = Wait(op, op.blocked_ns or op.posted_ns, thread=0)
            histories[rank] = replace(history, status=Status.RUNNING, waits={0: wait})
    return replace(trace, ranks=histories)


def _waited_for(waits: Waits) -> frozenset[int]:
    return frozenset().union(*(item.missing for item in waits))


def _shortest_cycle(waits_for: dict[int, frozenset[int]]) -> list[int]:
    """Return the ranks of a shortest cycle, from its lowest rank on; empty if there is none."""
    cycles = [_way_back(rank, waits_for) for rank in sorted(waits_for)]
    return min((cycle for cycle in cycles if cycle), key=len, default=[])


def _way_back(start: int, waits_for: dict[int, frozenset[int]]) -> list[int]:
    """Return the ranks of a shortest way from ``start`` back to it; empty if there is none."""
    paths, seen = deque([[start]]), {start}
    while paths:
        path = paths.popleft()
        following = waits_for[path[-1]]
        if start in following:
            return path
        new = sorted(rank for rank in following & waits_for.keys() if rank not in seen)
        seen.update(new)
        paths.extend([*path, rank] for rank in new)
    return []


def _deadlock(trace: Trace, stuck: dict[int, Waits], cycle: list[int]) -> Finding:
    # Of a rank with several waits, that for the next rank of the circle.
    held = [
        next(item for item in stuck[rank] if following in item.missing)
        for rank, following in zip(cycle, [*cycle[1:], cycle[0]], strict=True)
    ]
    ops = [item.op for item in held]
    others = [rank for rank in sorted(stuck) if rank not in cycle]
    if len(cycle) == 1:
        message = f"rank {cycle[0]} waits for itself"
    elif len(cycle) == 2:
        message = f"ranks {cycle[0]} and {cycle[1]} wait for each other"
    else:
        message = f"{ranks_text(cycle)} wait in a circle, each for the next"
    cause = causes.of_circle(trace, ops, _missing_of(stuck))
    details: dict[str, Any] = {"cycle": cycle, "why": cause.why}
    if others:
        details["also_blocked"] = others
    return Finding(
        code="deadlock",
        message=message,
        help=cause.help,
        cause=cause.name,
        ranks=tuple(cycle),
        operations=tuple(operation(op) for op in ops),
        details=details,
        time_ns=max(item.wait.since_ns for item in held),
    )


def _orphan(trace: Trace, stuck: dict[int, Waits]) -> Finding | None:
    """Return the wait for a rank that has finished; None when the ranks it needs have failed."""
    finished = {h.rank for h in trace.ranks if h.status is Status.FINISHED}
    roots = [item for waits in stuck.values() for item in waits if item.missing & finished]
    if not roots:
        return None
    first = min(roots, key=lambda item: item.wait.since_ns)
    together = {
        item.op.rank: item.op
        for item in roots
        if (item.op.kind, item.op.group, item.op.index, item.missing)
        == (first.op.kind, first.op.group, first.op.index, first.missing)
        and (item.op.is_collective or item is first)
    }
    ranks = sorted(together)
    op, gone = first.op, sorted(first.missing & finished)
    who, absent = ranks_text(ranks), ranks_text(gone)
    details: dict[str, Any] = {}
    if others := [rank for rank in sorted(stuck) if rank not in ranks]:
        details["also_blocked"] = others
    if op.is_collective:
        message = (
            f"{who} {verb(ranks, 'waits', 'wait')} in {op.kind} for {absent}, "
            f"which {verb(gone, 'has', 'have')} finished without it"
        )
        details |= _where_counts_part(trace, op)
    else:
        verb_, counterpart = ("send", "receive") if op.kind == "send" else ("receive", "send")
        message = (
            f"rank {op.rank} waits to {verb_} {'to' if op.kind == 'send' else 'from'} {absent}, "
            f"which {verb(gone, 'has', 'have')} finished without the matching {counterpart}"
        )
    cause = causes.of_orphan(trace, op, gone, _missing_of(stuck))
    if cause.why is not None:
        details["why"] = cause.why
    return Finding(
        code="orphan-wait",
        message=message,
        help=cause.help,
        cause=cause.name,
        ranks=tuple(ranks),
        operations=tuple(operation(together[rank]) for rank in ranks),
        details=details,
        time_ns=first.wait.since_ns,
    )


def _missing_of(stuck: dict[int, Waits]) -> dict[Op, frozenset[int]]:
    """Return the ranks that each operation which never ends waits for in vain."""
    return {item.op: item.missing for waits in stuck.values() for item in waits}


def _where_counts_part(trace: Trace, op: Op) -> dict[str, Any]:
    """Return how often each rank came to the group's collectives, and where they first differ."""
    group = trace.groups.get(op.group)
    members = group.ranks if group is not None else tuple(range(trace.world_size))
    histories = {
        rank: sorted(
            (o for o in trace.ranks[rank].ops.values() if o.is_collective and o.group == op.group),
            key=lambda o: o.id,
        )
        for rank in members
        if rank < trace.world_size
    }
    before = trace.matcher.forgotten_meetings[op.group]  # all of them came to these
    out: dict[str, Any] = {
        "counts": {str(rank): before + len(ops) for rank, ops in histories.items()}
    }
    for index in range(max(map(len, histories.values()))):
        at = {r: place(ops[index].site) for r, ops in histories.items() if index < len(ops)}
        if len(at) < len(histories) or len(set(at.values())) > 1:
            out["counts_part_at"] = {
                "index": before + index,
                **{str(rank): at.get(rank, "nothing: it has finished") for rank in histories},
            }
            break
    return out
