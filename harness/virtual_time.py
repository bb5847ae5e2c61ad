"""Runs a finished trace again in virtual time: who waits for what until when.

Each rank's posts, waits and computes are taken in its own order. What a wait needs is a post of
another rank, and a time is known as soon as that one is; so every event is looked at once, and
once more when what it waited for has come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from harness.semantics import needed_ranks
from harness.trace import Compute, Op, RankTrace, State, Trace

POST, WAIT, COMPUTE = range(3)
Event = tuple[int, Op | Compute]


@dataclass(slots=True)
class Place:
    """Where a rank is, and what it has done so far."""

    number: int
    events: list[Event]
    at: int = 0
    clock: float = 0.0
    intervals: list[tuple[float, float, Op | Compute]] = field(default_factory=list)
    endless: Op | None = None  # it waits for this, for ever


class Replay:
    """One run of a trace; ``compute_cost`` by kind and ``message_cost`` in units of time."""

    def __init__(
        self,
        trace: Trace,
        compute_cost: Callable[[str], float],
        message_cost: Callable[[Op], float],
        *,
        backend: str = "gloo",
        buffered: bool = False,
    ) -> None:
        self.exact = trace.unproven is None and not trace.opaque and _is_whole(trace)
        self.ranks = [Place(history.rank, in_order(history)) for history in trace.ranks]
        self._trace = trace
        self._compute_cost = compute_cost
        self._message_cost = message_cost
        self._backend = backend
        self._buffered = buffered
        self._posted: dict[Op, float] = {}
        self._waiting: dict[Op, list[int]] = {}  # not yet posted → ranks that need it
        self._given_up: set[Op] = set()  # waits that ended, nobody knows how

    def run(self) -> None:
        """Take every rank as far as it goes."""
        ready = list(reversed(range(len(self.ranks))))
        while ready:
            while ready:
                ready += self._advance(self.ranks[ready.pop()])
            ready = self._give_up()

    def transfers(self) -> Iterator[tuple[Op, Op, float, float]]:
        """Yield each message that moved: its send, its receive, start and end."""
        for send in self._posted:
            receive = send.match
            if send.kind == "send" and receive is not None and receive in self._posted:
                start = self._start(send, receive)
                yield send, receive, start, start + self._message_cost(send)

    def _advance(self, rank: Place) -> list[int]:
        """Run a rank until it waits for what is not posted; return the ranks that this wakes."""
        woken: list[int] = []
        while rank.at < len(rank.events):
            what, item = rank.events[rank.at]
            if isinstance(item, Compute):
                self._spend(rank, item, rank.clock + self._compute_cost(item.kind))
            elif what == POST:
                self._posted[item] = rank.clock
                woken += self._waiting.pop(item, ())
            else:
                end = self._end(item)
                if isinstance(end, Op):
                    self._waiting.setdefault(end, []).append(rank.number)
                    break
                if end == math.inf:
                    rank.endless = item
                    break
                self._spend(rank, item, max(end, rank.clock))
            rank.at += 1
        return woken

    def _spend(self, rank: Place, item: Op | Compute, until: float) -> None:
        if until > rank.clock or isinstance(item, Compute):
            rank.intervals.append((rank.clock, until, item))
        rank.clock = until

    def _end(self, op: Op) -> float | Op:
        """Return when ``op`` ends, ``inf`` for never, or what has to be posted first."""
        if op in self._given_up:
            return 0.0
        if op.is_collective:
            end = self._collective_end(op)
        elif op.kind == "send" and self._buffered:
            return self._posted[op]
        elif op.match is None:
            end = math.inf
        elif op.match not in self._posted:
            return op.match
        else:
            send, receive = (op, op.match) if op.kind == "send" else (op.match, op)
            return self._start(send, receive) + self._message_cost(send)
        if end == math.inf and op.ended_ns is not None:
            self.exact = False
            return 0.0
        return end

    def _start(self, send: Op, receive: Op) -> float:
        sent = self._posted[send]
        return sent if self._buffered else max(sent, self._posted[receive])

    def _collective_end(self, op: Op) -> float | Op:
        group = self._trace.groups.get(op.group)
        members = group.ranks if group is not None else tuple(range(self._trace.world_size))
        met = self._trace.matcher.met(op)
        end = self._posted[op]
        for rank in needed_ranks(op, members, self._backend):
            part = met.get(rank)
            if part is None:
                return math.inf
            if part not in self._posted:
                return part
            end = max(end, self._posted[part])
        return end

    def _give_up(self) -> list[int]:
        """Let the earliest wait pass that had ended, and that nothing here can end."""
        stopped = [
            (item.ended_ns, rank.number, item)
            for rank in self.ranks
            if rank.endless is None and rank.at < len(rank.events)
            for item in [rank.events[rank.at][1]]
            if isinstance(item, Op)
        ]
        ended = [each for each in stopped if each[0] is not None]
        if not ended:
            for _, number, op in stopped:
                self.ranks[number].endless = op
            return []
        _, number, op = min(ended, key=lambda each: (each[0] or 0, each[1]))
        self.exact = False
        self._given_up.add(op)
        for waiting in self._waiting.values():
            if number in waiting:
                waiting.remove(number)
        return [number]


def _is_whole(trace: Trace) -> bool:
    """Whether nothing that was posted has been forgotten: operations are numbered from 0."""
    return all(len(history.ops) > max(history.ops, default=-1) for history in trace.ranks)


def in_order(history: RankTrace) -> list[Event]:
    """Return what a rank did, by its clock; a call that posts and waits does so in that order."""
    events: list[tuple[tuple[int, int, int, int], Event]] = [
        ((compute.end_ns, -1, 0, 0), (COMPUTE, compute)) for compute in history.computes
    ]
    for op in history.ops.values():
        if op.state is State.FAILED and op.blocked_ns is None:
            continue  # the backend refused it
        events.append(((op.posted_ns, POST, op.id, 0), (POST, op)))
        if op.blocked_ns is not None:
            phase = POST if op.blocking else WAIT
            events.append(((op.blocked_ns, phase, op.id, 1), (WAIT, op)))
    events.sort(key=lambda event: event[0])
    return [event for _, event in events]
