"""What each rank posts and waits for, in order: all that an analysis of hangs needs to know."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from harness.trace import Op, RankTrace, State, Status, Trace


@dataclass(frozen=True, slots=True)
class Post:
    """A rank posts one operation. ``what`` is whose it is: an :class:`Op`, an action of a plan.

    ``peer`` and ``root`` are global ranks, ``size`` is in bytes; operations of one batch have the
    same ``batch``, and the last of them ``closes`` it. ``holds``: where the call itself has to
    wait, its rank does nothing else.
    """

    what: Any
    kind: str
    group: str
    members: tuple[int, ...]
    peer: int | None = None
    tag: int = 0
    size: int = 0
    root: int | None = None
    batch: int | None = None
    closes: bool = False
    holds: bool = True


@dataclass(frozen=True, slots=True)
class Await:
    """A rank waits for what it posted as number ``post``, counted from 0."""

    post: int


Script = list[Post | Await]


@dataclass(frozen=True, slots=True)
class Unread:
    """Why a trace cannot be analysed."""

    why: str


def read_scripts(trace: Trace, *, finished: bool = True) -> list[Script] | Unread:
    """Return every rank's script; :class:`Unread` for a trace that does not tell all of it.

    Unless it is to be ``finished``, of a rank that is stuck what it posted until then is enough.
    Of a rank with several threads only the posts are ordered: what one thread waits for need not
    hold back another, so its waits come last, and its calls hold up nothing but themselves.
    """
    why = _why_not(trace, finished)
    return Unread(why) if why is not None else [_script(trace, h) for h in trace.ranks]


def _why_not(trace: Trace, finished: bool) -> str | None:
    if trace.unproven is not None:
        return trace.unproven
    if trace.opaque:
        return f"group {min(trace.opaque)} has collectives that were not seen"
    if trace.matcher.forgotten_meetings:
        return "the run is too long: its first operations are not kept"
    for history in trace.ranks:
        who = f"rank {history.rank}"
        if finished and history.status is not Status.FINISHED:
            return f"{who} did not finish"
        if len(history.ops) <= max(history.ops, default=-1):
            return f"the run is too long: {who}'s first operations are not kept"
        for op in history.ops.values():
            if op.any_source:
                return f"{who} receives from any source, which NCCL cannot"
            if op.broken_off:
                return f"{who}'s wait for {op.api} was broken off"
    return None


def _script(trace: Trace, history: RankTrace) -> Script:
    refused = [op for op in history.ops.values() if op.state is State.FAILED]
    ops = sorted((op for op in history.ops.values() if op not in refused), key=lambda op: op.id)
    last = {op.batch: op.id for op in ops if op.batch is not None}
    number = {op.id: place for place, op in enumerate(ops)}
    threaded = has_threads(ops)
    steps: list[tuple[float, int, int, Post | Await]] = []
    for op in ops:
        closes = op.batch is not None and last[op.batch] == op.id
        post = _post(trace, op, closes=closes, holds=not threaded)
        steps.append((op.posted_ns, 0, op.id, post))
        if not is_waited_for(op):
            continue
        await_ = Await(number[op.id])
        if threaded:
            steps.append((float("inf"), 1, op.id, await_))
        elif op.blocking:  # part of the call, so right after it
            steps.append((op.posted_ns, 0, op.id, await_))
        else:
            steps.append((op.blocked_ns or 0, 1, op.id, await_))
    steps.sort(key=lambda step: step[:3])  # stable: a blocking call's wait stays behind its post
    return [step[3] for step in steps]


def _post(trace: Trace, op: Op, *, closes: bool, holds: bool) -> Post:
    group = trace.groups.get(op.group)
    return Post(
        what=op,
        kind=op.kind,
        group=op.group,
        members=group.ranks if group is not None else _listed(op.group, trace.world_size),
        peer=op.peer,
        tag=op.tag,
        size=op.numel * bytes_of(op.dtype),
        root=op.root,
        batch=op.batch,
        closes=closes,
        holds=holds,
    )


def _listed(group: str, world_size: int) -> tuple[int, ...]:
    """Return the ranks that a meeting's name lists (``new_group:0,1``); all if it lists none."""
    ranks = tuple(int(number) for number in group.partition(":")[2].split(",") if number.isdigit())
    return ranks or tuple(range(world_size))


def is_waited_for(op: Op) -> bool:
    """Whether its rank was inside a wait for it; one that was only polled was not waited for."""
    return op.blocked_ns is not None


def has_threads(ops: Iterable[Op]) -> bool:
    """Whether one rank's operations came from several threads: one posted while another waited."""
    waits = sorted((op.blocked_ns, op.ended_ns or 0) for op in ops if op.blocked_ns is not None)
    moments = sorted([op.posted_ns for op in ops] + [start for start, _ in waits])
    place = 0
    for start, end in waits:
        while place < len(moments) and moments[place] <= start:
            place += 1
        if place < len(moments) and moments[place] < end:
            return True
    return False


def bytes_of(dtype: str) -> int:
    """Return the size of an element, from its type's name (``float32``, ``float8_e4m3fn``)."""
    bits = re.search(r"\d+", dtype)
    return max(1, int(bits.group()) // 8) if bits else 1
