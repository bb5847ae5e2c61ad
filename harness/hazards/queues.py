"""NCCL's ordering and capacity: when a request is done, given everything that was posted.

One queue per rank and communicator, in order of posting. An entry of it (a single operation, a
batch, or a collective) begins when all before it have finished, and makes progress on all its
operations at once. There are no tags: the n-th send of one rank to another on a communicator meets
the n-th receive there. What ``ProcessGroupNCCL`` adds are the communicators:

- ``nccl-eager`` (the group was made with ``device_id``): a group has one, ready from the start;
- ``nccl-lazy``: single sends and receives use one per pair of ranks, both directions in it; batches
  and collectives use the group's. Each is made at its first use, and holds every member inside
  the posting call until all have come.

All rules are monotone: what may happen stays possible whatever else happens first. So the outcome
does not depend on the order in which ranks are driven, and more capacity never takes anything away.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from math import inf
from typing import Literal, NamedTuple

from harness.worlds.simulated.request import Deliver, Meet, Request

Semantics = Literal["nccl-eager", "nccl-lazy"]
Depart = Callable[[Request], None]  # a send that is done before its receive: keep its data

ON_THE_HOST = frozenset({"init_process_group", "new_group", "monitored_barrier"})
"""Meetings of the processes themselves: they wait for all members, and for no queue."""


class Communicator(NamedTuple):
    """A group's communicator, or that of one pair of its ranks (lower rank first)."""

    group: str
    pair: tuple[int, int] | None = None


@dataclass(slots=True, eq=False)
class _Entry:
    rank: int
    communicator: Communicator
    requests: list[Request]
    closed: bool
    running: bool = False
    left: int = 0  # requests that are not done


@dataclass(slots=True)
class _Channel:
    """One direction of a pair on a communicator: what runs, and what is under way."""

    sends: deque[Request] = field(default_factory=deque)
    receives: deque[Request] = field(default_factory=deque)
    flying: deque[Request] = field(default_factory=deque)  # done, and not received
    bytes: int = 0  # in flight
    unmatched: deque[Request] = field(default_factory=deque)  # posted, all of one kind


@dataclass(slots=True)
class _Meeting:
    """One collective."""

    members: tuple[int, ...]
    posted: dict[int, Request] = field(default_factory=dict)
    running: dict[int, Request] = field(default_factory=dict)
    open: dict[int, Request] = field(default_factory=dict)  # of these, what is not done


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What a request that is not done waits for: another request, or a rank that has not come.

    ``why`` is ``behind`` (that is before it in its queue), ``counterpart`` (it needs that to run)
    or ``creation`` (its communicator needs that rank).
    """

    why: Literal["behind", "counterpart", "creation"]
    rank: int
    request: Request | None = None


class Queues:
    """The network of :mod:`harness.worlds.simulated.request` with NCCL's rules.

    ``capacity`` is how many bytes may be under way in each direction of each pair, per
    communicator: 0, a number, or ``inf``. ``deliver`` is called when a receive gets its message,
    ``depart`` before that when the send is done earlier, ``meet`` when one rank's part of a
    collective is done. ``made`` are communicators that need nobody to come any more.
    """

    def __init__(
        self,
        semantics: Semantics,
        capacity: float,
        deliver: Deliver | None = None,
        meet: Meet | None = None,
        depart: Depart | None = None,
        *,
        made: AbstractSet[Communicator] = frozenset(),
    ) -> None:
        self.semantics = semantics
        self.capacity = capacity
        self._deliver, self._meet, self._depart = deliver, meet, depart
        self._queues: dict[tuple[int, Communicator], deque[_Entry]] = {}
        self._entries: dict[Request, _Entry] = {}  # of what is not done
        self._batches: dict[int, list[_Entry]] = {}  # rank → of the batch being posted
        self._channels: dict[tuple[Communicator, int, int], _Channel] = {}
        self._meetings: dict[tuple[str, str, int], _Meeting] = {}
        self._counts: Counter[tuple[int, str, str]] = Counter()
        self._made = made
        self._came: dict[Communicator, set[int]] = {}
        self._held: dict[Communicator, list[Request]] = {}
        self._ready: deque[tuple[int, Communicator]] = deque()  # queues to look at

    def post(self, request: Request) -> None:
        """Take a request in; ValueError for a receive from any source, which NCCL has not."""
        if request.kind == "recv" and request.peer is None:
            raise ValueError("NCCL has no receive from any source: name the rank")
        if request.is_collective:
            self._join(request)
        else:
            self._pair(request)
        if request.kind in ON_THE_HOST:
            self._run(request)
            return
        communicator = self.communicator(request)
        self._enqueue(request, communicator)
        self._come(request, communicator)
        self._drain()

    def close_batch(self, rank: int) -> None:
        """The batch that this rank has been posting is complete: it may begin."""
        for entry in self._batches.pop(rank, ()):
            entry.closed = True
            self._ready.append((rank, entry.communicator))
        self._drain()

    def withdraw(self, request: Request) -> None:
        """Note that a handle was dropped: to NCCL that means nothing."""
        request.withdrawn = True

    def communicator(self, request: Request) -> Communicator:
        """Return the communicator that a request goes over."""
        single = request.batch is None and request.peer is not None
        if self.semantics == "nccl-lazy" and single:
            low, high = sorted((request.rank, request.peer or 0))
            return Communicator(request.group, (low, high))
        return Communicator(request.group)

    def obstacles(self, request: Request) -> list[Obstacle]:
        """Return what a request waits for now, all of which it needs; none if it is done."""
        if request.ended:
            return []
        if request.kind in ON_THE_HOST:
            return list(self._missing(request))
        entry = self._entries[request]
        if absent := self._absent(request, entry.communicator):
            return [Obstacle("creation", rank) for rank in sorted(absent)]
        if entry.running:
            return list(self._missing(request))
        head = self._queues[request.rank, entry.communicator][0]
        waiting = [one for one in head.requests if not one.done and head is not entry]
        return [Obstacle("behind", request.rank, one) for one in waiting]

    def _missing(self, request: Request) -> Iterator[Obstacle]:
        """Give what a running request needs and does not run yet."""
        if not request.is_collective:
            assert request.peer is not None
            yield Obstacle("counterpart", request.peer, request.match)
            return
        meeting = self._meetings[_meeting_key(request)]
        for rank in sorted(self._needed(request) - meeting.running.keys()):
            yield Obstacle("counterpart", rank, meeting.posted.get(rank))

    # taking a request in

    def _join(self, request: Request) -> None:
        counter = (request.rank, request.group, _sequence(request))
        request.index = self._counts[counter]
        self._counts[counter] += 1
        key = _meeting_key(request)
        meeting = self._meetings.get(key)
        if meeting is None:
            meeting = self._meetings[key] = _Meeting(request.members)
        meeting.posted[request.rank] = request

    def _pair(self, request: Request) -> None:
        """Find a send's receive, or a receive's send, by their order on the channel."""
        unmatched = self._channel(request).unmatched
        if unmatched and unmatched[0].kind != request.kind:
            other = unmatched.popleft()
            request.match, other.match = other, request
        else:
            unmatched.append(request)

    def _channel(self, request: Request) -> _Channel:
        assert request.peer is not None
        ends = (request.rank, request.peer)
        source, target = ends if request.kind == "send" else ends[::-1]
        key = (self.communicator(request), source, target)
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = _Channel()
        return channel

    def _enqueue(self, request: Request, communicator: Communicator) -> None:
        entry = None
        if request.batch is not None:
            batch = self._batches.setdefault(request.rank, [])
            entry = next((one for one in batch if one.communicator == communicator), None)
        if entry is None:
            entry = _Entry(request.rank, communicator, [], closed=request.batch is None)
            self._queues.setdefault((request.rank, communicator), deque()).append(entry)
            if request.batch is not None:
                self._batches[request.rank].append(entry)
        entry.requests.append(request)
        entry.left += 1
        self._entries[request] = entry
        self._ready.append((request.rank, communicator))

    def _come(self, request: Request, communicator: Communicator) -> None:
        """Hold the posting call until the communicator exists."""
        if self.semantics != "nccl-lazy":
            return
        came = self._came.setdefault(communicator, set())
        if request.rank in came and not self._absent(request, communicator):
            return
        came.add(request.rank)
        held = self._held.setdefault(communicator, [])
        request.admitted = False
        held.append(request)
        if not self._absent(request, communicator):
            for one in held:
                one.admitted = True
                self._ready.append((one.rank, communicator))
            held.clear()

    def _absent(self, request: Request, communicator: Communicator) -> set[int]:
        """Return the ranks without which the communicator is not made."""
        if self.semantics != "nccl-lazy" or communicator in self._made:
            return set()
        members = communicator.pair or request.members
        return set(members) - self._came.get(communicator, set())

    # progress

    def _drain(self) -> None:
        while self._ready:
            queue = self._queues[self._ready.popleft()]
            if not queue:
                continue
            head = queue[0]
            if not head.closed or head.running:
                continue
            if self._absent(head.requests[0], head.communicator):
                continue
            head.running = True
            for request in head.requests:
                self._run(request)

    def _run(self, request: Request) -> None:
        if request.is_collective:
            meeting = self._meetings[_meeting_key(request)]
            meeting.running[request.rank] = meeting.open[request.rank] = request
            self._advance_meeting(meeting)
            return
        channel = self._channel(request)
        (channel.sends if request.kind == "send" else channel.receives).append(request)
        self._advance_channel(channel)

    def _advance_channel(self, channel: _Channel) -> None:
        while channel.receives and (channel.flying or channel.sends):
            receive = channel.receives.popleft()
            if channel.flying:
                send = channel.flying.popleft()
                channel.bytes -= send.size
            else:
                send = channel.sends.popleft()
                self._finish(send)
            if self._deliver is not None:
                self._deliver(send, receive)
            self._finish(receive)
        while channel.sends and self._fits(channel, channel.sends[0]):
            send = channel.sends.popleft()
            channel.flying.append(send)
            channel.bytes += send.size
            if self._depart is not None:
                self._depart(send)
            self._finish(send)

    def _fits(self, channel: _Channel, send: Request) -> bool:
        return self.capacity > 0 and channel.bytes + send.size <= self.capacity

    def _advance_meeting(self, meeting: _Meeting) -> None:
        for rank in sorted(meeting.open):
            request = meeting.open[rank]
            if self._needed(request) <= meeting.running.keys():
                del meeting.open[rank]
                if self._meet is not None:
                    self._meet(request, [meeting.running[r] for r in sorted(meeting.running)])
                self._finish(request)
        if len(meeting.running) == len(meeting.members) and not meeting.open:
            first = next(iter(meeting.running.values()))
            self._meetings.pop(_meeting_key(first), None)

    def _needed(self, request: Request) -> set[int]:
        """Return the members whose parts have to run before this one can be done."""
        others = set(request.members) - {request.rank}
        root, kind = request.root, request.kind
        if root is None or root not in request.members:
            return others
        if kind in ("gather", "reduce") and request.rank != root:
            return set() if self.capacity == inf else {root} if kind == "gather" else others
        if kind in ("scatter", "broadcast"):
            if request.rank == root:
                return set() if self.capacity == inf else others
            return {root} if self.capacity == inf or kind == "scatter" else others
        return others

    def _finish(self, request: Request) -> None:
        request.done = True
        entry = self._entries.pop(request, None)
        if entry is None:  # a meeting on the host
            return
        entry.left -= 1
        if not entry.left:
            self._queues[entry.rank, entry.communicator].popleft()
            self._ready.append((entry.rank, entry.communicator))


def _sequence(request: Request) -> str:
    return request.kind if request.kind in ON_THE_HOST else ""


def _meeting_key(request: Request) -> tuple[str, str, int]:
    return request.group, _sequence(request), request.index
