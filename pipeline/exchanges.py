"""Sends and receives in rounds: an order that no backend's rules can turn into a hang.

The plan is run on a clock that all ranks share. In each round every rank does the next action of
its row for which the data is there; then both ends of every message that was made go to the end
of their rows. So each rank meets its messages in the order of the rounds, and no two ranks meet
theirs in opposite orders. What stands between two compute actions is posted as one batch, so that
its parts do not wait for each other: by induction over the rounds every batch is completed,
whether or not sends are buffered, and with a single queue for all that a rank communicates.
"""

from collections import deque
from collections.abc import MutableSequence
from itertools import chain

from pipeline.coded import (
    BACKWARDS,
    FORWARD,
    FULL,
    PAIR,
    RECV_B,
    RECV_F,
    SEND_B,
    SEND_F,
    Coded,
    Row,
)
from pipeline.flow import Flow
from pipeline.plan import Plan


def with_exchanges(plan: Plan) -> Coded:
    """Return the rows of a compute-only plan with its sends and receives, in linear time.

    Of a plan that cannot go on (it is invalid), the rest has each receive right before its use.
    """
    return _Rounds(plan).run()


NOBODY = -2  # no user: -1 is one that comes from no known line


class _Wanted:
    """The messages that are still to be received, once for each action that uses one."""

    def __init__(self, flow: Flow) -> None:
        # By kind of receive and place: the origin of the first user.
        self._users: dict[int, MutableSequence[int]] = {
            kind: flow.table("i", NOBODY, 1) for kind in (RECV_F, RECV_B)
        }
        self._more: dict[tuple[int, int], deque[int]] = {}  # of an invalid plan

    def add(self, kind: int, place: int, origin: int) -> None:
        """Note a user of a message."""
        if self._users[kind][place] == NOBODY:
            self._users[kind][place] = origin
        else:
            self._more.setdefault((kind, place), deque()).append(origin)

    def take(self, kind: int, place: int) -> int:
        """Take a message off, and return the origin of its user; NOBODY if there is none."""
        users = self._users[kind]
        origin: int = users[place]
        more = self._more.get((kind, place)) if self._more else None
        users[place] = more.popleft() if more else NOBODY
        return origin


class _Rounds:
    def __init__(self, plan: Plan) -> None:
        self._coded, self._rows, self._placement = plan.coded, plan.coded.rows, plan.placement
        self._flow = Flow(plan)
        self._out = [Row() for _ in self._rows]
        self._next = [0] * len(self._rows)
        self._done = self._flow.table("b", -1, self._flow.tables)
        self._waiting: dict[int, list[int]] = {}  # place of a result → ranks
        self._wanted = _Wanted(self._flow)
        for row in self._rows:
            for at, origin in enumerate(row.origins):
                for kind, stage, microbatch in self._received_for(row, at):
                    self._wanted.add(kind, self._flow.place(stage, microbatch), origin)

    def run(self) -> Coded:
        ranks = list(range(len(self._rows)))
        while ranks:
            ready = self._ready(ranks)
            ranks = sorted(chain(ready, self._do(ready)))
            for rank in ready:
                self._exchange(self._rows[rank], self._next[rank] - 1)
        for rank in range(len(self._rows)):
            self._finish(rank)
        return Coded(tuple(self._out), self._coded.origins)

    def _ready(self, ranks: list[int]) -> list[int]:
        """Return which of these can do their next action; the others are woken once they may."""
        missing_of, done = self._flow.missing, self._done
        ready = []
        for rank in ranks:
            row, at = self._rows[rank], self._next[rank]
            if at == len(row.kinds):
                continue
            if (missing := missing_of(row, at, done)) < 0:
                ready.append(rank)
            else:
                self._waiting.setdefault(missing, []).append(rank)
        return ready

    def _do(self, ready: list[int]) -> list[int]:
        """Do these ranks' next actions, and return the ranks that have waited for one."""
        rows, places, out, flow = self._rows, self._next, self._out, self._flow
        done, waiting, made, width, offset = (
            self._done,
            self._waiting,
            flow.made,
            flow.width,
            flow.offset,
        )
        woken: list[int] = []
        for rank in ready:
            row, at = rows[rank], places[rank]
            places[rank] = at + 1
            kind = row.kinds[at]
            if kind == PAIR:
                out[rank].copy_from(row, at)
                for place in flow.made_by(row, at):
                    done[place] = 1
                    woken += waiting.pop(place, ())
                continue
            stage, microbatch = row.stages[at], row.microbatches[at]
            out[rank].put(kind, stage, microbatch, row.origins[at])
            if made[kind] >= 0:
                place = stage * width + microbatch - offset + made[kind]
                done[place] = 1
                if place in waiting:
                    woken += waiting.pop(place)
        return woken

    def _exchange(self, row: Row, at: int) -> None:
        """Put both ends of what was made in a round behind it, in one order on all ranks."""
        kind, stage, microbatch = row.kinds[at], row.stages[at], row.microbatches[at]
        if kind in (FORWARD, PAIR):
            if (target := self._flow.after[stage]) >= 0:
                self._out[self._placement[stage]].put(SEND_F, stage, microbatch, row.origins[at])
                self._receive(RECV_F, stage + 1, microbatch, target)
            if kind == FORWARD:
                return
            kind, stage, microbatch = FULL, row.back_stages[at], row.back_microbatches[at]
        if kind in BACKWARDS and (target := self._flow.before[stage]) >= 0:
            self._out[self._placement[stage]].put(SEND_B, stage, microbatch, row.origins[at])
            self._receive(RECV_B, stage - 1, microbatch, target)

    def _receive(self, kind: int, stage: int, microbatch: int, rank: int) -> None:
        """Let a rank receive a message here, if it still wants it."""
        flow = self._flow
        user = self._wanted.take(kind, stage * flow.width + microbatch - flow.offset)
        if user != NOBODY:
            self._out[rank].put(kind, stage, microbatch, user)

    def _received_for(self, row: Row, at: int) -> list[tuple[int, int, int]]:
        """List the receives, as (kind, stage, microbatch), of what an action uses."""
        kind, stage, microbatch = row.kinds[at], row.stages[at], row.microbatches[at]
        found = []
        if kind in (FORWARD, PAIR) and self._flow.before[stage] >= 0:
            found.append((RECV_F, stage, microbatch))
        if kind == PAIR:
            kind, stage, microbatch = FULL, row.back_stages[at], row.back_microbatches[at]
        if kind in BACKWARDS and self._flow.after[stage] >= 0:
            found.append((RECV_B, stage, microbatch))
        return found

    def _finish(self, rank: int) -> None:
        row, out, flow = self._rows[rank], self._out[rank], self._flow
        for at in range(self._next[rank], len(row)):
            for message in self._received_for(row, at):
                self._receive(*message, rank)
            out.copy_from(row, at)
            for kind, stage, microbatch in row.parts_at(at):
                if kind == FORWARD and flow.after[stage] >= 0:
                    out.put(SEND_F, stage, microbatch, row.origins[at])
                elif kind in BACKWARDS and flow.before[stage] >= 0:
                    out.put(SEND_B, stage, microbatch, row.origins[at])
