"""Traces told by hand: what each rank posted, waits for, and how it ended.

>>> story = Story(2)
>>> story[0].send(to=1)
>>> story[1].send(to=0)
>>> sorted(find_stuck(story.trace()))
[0, 1]

``send``, ``recv`` and a collective block, as the calls of that name do; ``isend`` and ``irecv``
only post. ``back`` lets the rank's last wait return. Everything happens at a moment of its own,
in the order in which it is told.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from harness.checkers.deadlock import check, find_stuck
from harness.decode import Decoder, Event
from harness.findings import Finding
from harness.recorder import GIVES_UP, INSIDE
from harness.trace import Status, Trace

MAIN = 1  # the thread of a rank that waits unless another is named
FILE = "program.py"


class Story:
    """What the ranks of one case did, so far."""

    def __init__(self, world_size: int, groups: Mapping[str, Sequence[int]] | None = None) -> None:
        self.world_size = world_size
        self.now = 0
        self.events: list[tuple[int, Event]] = []
        self.statuses: dict[int, tuple[Status, int]] = {}
        self._ranks = [Rank(self, number) for number in range(world_size)]
        for name, members in ({"0": range(world_size)} | dict(groups or {})).items():
            for rank in members:
                self.define(rank, "G", name, tuple(members))

    def __getitem__(self, rank: int) -> Rank:
        return self._ranks[rank]

    def define(self, rank: int, letter: str, *values: Any) -> None:
        """Add something that later events of this rank refer to."""
        self.events.append((rank, (letter, 0, *values)))

    def add(self, rank: int, letter: str, *values: int, flags: int = 0) -> None:
        """Let something happen on a rank, now."""
        self.now += 1000
        a, b, c, d = [*values, 0, 0, 0][:4]
        self.events.append((rank, (letter, self.now, a, b, c, d, flags)))

    def trace(self, *, shuffled: random.Random | None = None) -> Trace:
        """The trace of it all, read in order or in another one that keeps each rank's own."""
        decoder = Decoder(self.world_size)
        events = self.events if shuffled is None else interleaved(self.events, shuffled)
        decoder.feed(events)
        for rank, (status, at) in self.statuses.items():
            decoder.trace.ranks[rank].status = status
            decoder.trace.ranks[rank].ended_ns = at
        return decoder.trace


def interleaved(events: list[tuple[int, Event]], source: random.Random) -> list[tuple[int, Event]]:
    """The same events, each rank's in its order, the ranks mixed at random."""
    queues: dict[int, list[tuple[int, Event]]] = {}
    for item in events:
        queues.setdefault(item[0], []).append(item)
    for queue in queues.values():
        queue.reverse()
    mixed = []
    while queues:
        rank = source.choice(sorted(queues))
        mixed.append(queues[rank].pop())
        if not queues[rank]:
            del queues[rank]
    return mixed


class Rank:
    """One rank of a story."""

    def __init__(self, story: Story, number: int) -> None:
        self._story = story
        self.number = number
        self._posted = 0
        self._waits: list[tuple[int, int]] = []  # operation, thread

    def post(
        self,
        kind: str,
        *,
        api: str | None = None,
        group: str = "0",
        peer: int | None = None,
        tag: int = 0,
        shape: tuple[int, ...] = (4,),
        dtype: str = "float32",
        root: int | None = None,
        reduce_op: str | None = None,
        action: str | None = None,
        planned: bool = True,
        line: int | None = None,
        any_source: bool = False,
        splits: bool = False,
    ) -> int:
        """Post an operation; ``line`` is where (by default a line of its own)."""
        op, self._posted = self._posted, self._posted + 1
        what = (kind, api or kind, group, peer, tag, math.prod(shape), dtype, shape)
        site = self._site(op + 1 if line is None else line)
        self._story.define(self.number, "T", op, *what, root, reduce_op, site, any_source, splits)
        if action is not None:
            self._story.define(self.number, "A", op + 1, action, planned)
        self._story.add(self.number, "P", op, op, 0 if action is None else op + 1)
        return op

    def _site(self, line: int) -> int:
        self._story.define(self.number, "S", line, FILE, line, "step")
        return line

    def isend(self, to: int, **more: Any) -> int:
        own: dict[str, Any] = {"api": "isend", "peer": to}
        return self.post("send", **own | more)

    def irecv(self, source: int | None, **more: Any) -> int:
        own: dict[str, Any] = {"api": "irecv", "peer": source, "any_source": source is None}
        return self.post("recv", **own | more)

    def send(self, to: int, **more: Any) -> int:
        return self._inside(self.isend(to, api="send", **more))

    def recv(self, source: int | None, **more: Any) -> int:
        return self._inside(self.irecv(source, api="recv", **more))

    def collective(self, kind: str, **more: Any) -> int:
        return self._inside(self.post(kind, **more))

    def barrier(self, **more: Any) -> int:
        return self.collective("barrier", shape=(0,), dtype="", **more)

    def _inside(self, op: int) -> int:
        self.wait(op, inside=True)
        return op

    def wait(
        self,
        op: int,
        *,
        gives_up: bool = False,
        others: int = 0,
        thread: int = MAIN,
        inside: bool = False,
        line: int | None = None,
    ) -> None:
        """Block on an operation; ``others`` are threads alive besides this one."""
        flags = (GIVES_UP if gives_up else 0) | (INSIDE if inside else 0)
        site = 0 if line is None else self._site(line)
        self._story.add(self.number, "W", op, thread, site, others, flags=flags)
        self._waits.append((op, thread))

    def back(self, source: int | None = None) -> None:
        """The last wait returns."""
        op, thread = self._waits.pop()
        self._story.add(self.number, "D", op, thread, 0 if source is None else source + 1)

    def raises_from_wait(self) -> None:
        """The last wait raises."""
        op, thread = self._waits.pop()
        self._story.add(self.number, "F", op, thread)

    def refused(self, op: int) -> None:
        """The backend refused to post it."""
        self._story.add(self.number, "F", op, MAIN)

    def drops(self, op: int) -> None:
        self._story.add(self.number, "X", op)

    def changes_buffer(self, op: int) -> None:
        self._story.add(self.number, "M", op)

    def destroys(self, group: str = "0") -> None:
        self._story.now += 1000
        event = ("K", self._story.now, group, self._site(900))
        self._story.events.append((self.number, event))

    def finishes(self) -> None:
        self._ends(Status.FINISHED)

    def raises(self) -> None:
        self._ends(Status.RAISED)

    def dies(self) -> None:
        self._ends(Status.DIED)

    def _ends(self, status: Status) -> None:
        self._story.now += 1000
        self._story.statuses[self.number] = (status, self._story.now)


def stuck(story: Story, backend: str = "gloo") -> list[int]:
    return sorted(find_stuck(story.trace(), backend))


def found(story: Story) -> Finding:
    finding = check(story.trace())
    assert finding is not None
    return finding
