"""Gloo's semantics: a send meets its receive, first in first out per pair and tag.

A receive tells its source that it is ready; a send whose turn it is goes out then, into the first
receive of its channel. What was dropped meanwhile keeps its turn, as on gloo: a dropped send uses
up a readiness and moves nothing; what arrives for a dropped receive is never read, nor is anything
behind it on that connection. With ``buffered`` a send is done at once, its data kept aside.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from harness.worlds.simulated.data import Inputs
from harness.worlds.simulated.exchange import Exchange
from harness.worlds.simulated.request import Deliver, Request

Choose = Callable[[int], int]  # how many possibilities there are → which of them comes true
Key = tuple[str, int, int, int]  # group, source, destination, tag
Box = tuple[str, int, int]  # group, destination, tag

OWN_SEQUENCE = frozenset({"new_group", "init_process_group"})
WORKERS = 2  # threads of a group that carry out its collectives
CLOSED = "Application timeout caused pair closure"


def peer_gone(peer: int) -> RuntimeError:
    """Return what gloo says of a rank at the other end that has died."""
    return RuntimeError(f"Connection closed by peer: rank {peer} has gone")


@dataclass(slots=True)
class Channel:
    """The messages of one pair under one tag."""

    sends: deque[Request] = field(default_factory=deque)
    receives: deque[Request] = field(default_factory=deque)  # that nothing has come for
    ready: int = 0  # receives that the source knows of, and has sent nothing for


def first(count: int) -> int:
    """Choose the first of so many possibilities."""
    return 0


@dataclass(slots=True)
class Rendezvous:
    """The messages and collectives of one simulated world.

    ``abort`` is called with a rank that gets more than its buffer holds.
    """

    deliver: Deliver
    abort: Callable[[int], None]
    buffered: bool = False
    choose: Choose = first
    channels: dict[Key, Channel] = field(default_factory=lambda: defaultdict(Channel))
    free: dict[Box, list[Request]] = field(default_factory=lambda: defaultdict(list))
    meetings: dict[tuple[str, int], dict[int, Request]] = field(default_factory=dict)
    exchanges: dict[str, Exchange] = field(default_factory=dict)  # by group
    held: dict[tuple[str, str, int], list[Request]] = field(default_factory=dict)
    apart: set[tuple[str, str, int]] = field(default_factory=set)  # of which some disagree
    damaged: set[str] = field(default_factory=set)  # groups
    dead: set[int] = field(default_factory=set)
    cuts: set[tuple[str, int]] = field(default_factory=set)  # ranks that closed a group's
    jammed: set[tuple[str, int, int]] = field(default_factory=set)  # group, source, destination
    lines: dict[tuple[int, str], list[Request]] = field(default_factory=lambda: defaultdict(list))
    _counts: dict[tuple[int, str, str], int] = field(default_factory=lambda: defaultdict(int))

    def post(self, request: Request) -> None:
        """Take a request in; it, and others, may be done by that."""
        if self.cuts and (request.group, request.rank) in self.cuts:
            request.error = RuntimeError(CLOSED)
        elif request.kind == "send":
            self._send(request)
        elif request.kind == "recv":
            self._receive(request)
        else:
            self._come(request)

    def close_batch(self, rank: int) -> None:
        """Gloo knows no batches: each operation of one stands alone."""

    # messages

    def _send(self, send: Request) -> None:
        assert send.peer is not None
        me, peer = send.rank, send.peer
        if (gone := self.gone(send.group, peer)) is not None:
            send.error = gone
            return
        channel = self.channels[send.group, me, peer, send.tag]
        if channel.ready:
            channel.ready -= 1
            self._transmit(channel, send)
            return
        channel.sends.append(send)
        if self.buffered:
            if send.payload is not None:
                send.payload.keep()
            send.done = True
        if self.free and self._arrives(send.group, me, peer):
            anyone = self.free.get((send.group, peer, send.tag))
            if anyone:
                self._expect(channel, anyone.pop(0), me)

    def _receive(self, receive: Request) -> None:
        me, group, tag = receive.rank, receive.group, receive.tag
        if receive.peer is not None:
            if (gone := self.gone(group, receive.peer)) is not None:
                receive.error = gone
                return
            self._expect(self.channels[group, receive.peer, me, tag], receive, receive.peer)
            return
        others = [member for member in receive.members if member != me]
        ready = [
            source
            for source in others
            if self._arrives(group, source, me) and self.channels[group, source, me, tag].sends
        ]
        if ready:
            source = ready[self.choose(len(ready)) if len(ready) > 1 else 0]
            self._expect(self.channels[group, source, me, tag], receive, source)
        elif all(self.gone(group, source) is not None for source in others) and others:
            receive.error = self.gone(group, others[0])
        else:
            self.free[group, me, tag].append(receive)

    def _arrives(self, group: str, source: int, destination: int) -> bool:
        return not self.jammed or (group, source, destination) not in self.jammed

    def _expect(self, channel: Channel, receive: Request, source: int) -> None:
        """Tell the source that a receive is ready."""
        channel.receives.append(receive)
        if not self._arrives(receive.group, receive.rank, source):
            return
        if channel.sends:
            self._transmit(channel, channel.sends.popleft())
        else:
            channel.ready += 1

    def _transmit(self, channel: Channel, send: Request) -> None:
        """Let a send go out into the first receive."""
        if send.withdrawn:
            return
        send.done = True
        assert send.peer is not None
        if not self._arrives(send.group, send.rank, send.peer) or not channel.receives:
            return
        receive = channel.receives.popleft()
        if receive.withdrawn:
            self._damage(send.group)
            self.jammed.add((send.group, send.rank, send.peer))
            return
        receive.match = send  # one way: two that know each other live until they are collected
        receive.done = True
        self.deliver(send, receive)

    def withdraw(self, request: Request) -> None:
        """The handle was dropped: nothing moves any more, though the turn stays."""
        if not request.done and not request.is_collective:
            request.withdrawn = True

    def lose(self, receive: Request) -> None:
        """The handle was dropped while the message was on its way: nobody reads it."""
        if receive.match is not None:
            self._damage(receive.group)
            self.jammed.add((receive.group, receive.match.rank, receive.rank))

    # collectives

    def _come(self, request: Request) -> None:
        tags = 1 if request.payload is None else request.payload.tags
        request.index = self.next_tag(request.rank, request.group, request.kind, tags)
        if request.payload is None:
            meeting = self.meetings.setdefault((request.group, request.index), {})
            meeting[request.rank] = request
            self._gather(meeting)
            return
        line = self.lines[request.rank, request.group]
        line.append(request)
        self._begin(line)

    def next_tag(self, rank: int, group: str, kind: str, count: int = 1) -> int:
        """Take the next numbers of a rank in a group; those of its collectives are in one row."""
        counter = (rank, group, kind if kind in OWN_SEQUENCE else "")
        taken = self._counts[counter]
        self._counts[counter] = taken + count
        return taken

    def _exchange(self, group: str) -> Exchange:
        exchange = self.exchanges.get(group)
        if exchange is None:
            exchange = Exchange(self.abort, lambda s, d: not self._arrives(group, s, d))
            self.exchanges[group] = exchange
        return exchange

    def _gather(self, meeting: dict[int, Request]) -> None:
        """Let those go on who only wait until all have come."""
        for part in meeting.values():
            missing = set(part.members) - meeting.keys()
            if not part.ended and not missing:
                part.done = True
            elif not part.ended and (gone := missing & self.dead):
                part.error = peer_gone(min(gone))

    def _begin(self, line: list[Request]) -> None:
        """Carry out as many of a rank's collectives as there are workers, and what follows."""
        lines = deque([line])
        while lines:
            line = lines.popleft()
            while (request := _next(line)) is not None:
                request.started = True
                lines += self._start(request)

    def _start(self, request: Request) -> list[list[Request]]:
        """Carry out a rank's part; return the lines that are shorter by that.

        Where all ranks come and agree there is no need of messages, which take far longer.
        """
        group, part = request.group, request.payload
        where = (group, part.slot, request.index)
        if part.alike is None or where in self.apart or self._is_damaged(group):
            shorter = []
            for number in range(part.tags):
                shorter += self._part((group, part.slot, request.index + number))
            exchange = self._exchange(group)
            exchange.start(request)
            return shorter + self._advance(exchange, group)
        held = self.held.setdefault(where, [])
        held.append(request)
        part.keep()
        if held[0].payload.alike != part.alike:
            return self._part(where)
        if len(held) < len(request.members):
            return []
        del self.held[where]
        given = Inputs({one.rank: one.payload.kept for one in held})
        for one in held:
            one.payload.finish(given)
            one.done = True
        return [self._shortened(one) for one in held]

    def _part(self, where: tuple[str, str, int]) -> list[list[Request]]:
        """Let those who have come to a collective, or will, carry it out by messages after all."""
        self.apart.add(where)
        waiting = self.held.pop(where, None)
        if waiting is None:
            return []
        exchange = self._exchange(where[0])
        for one in waiting:
            exchange.start(one)
        return self._advance(exchange, where[0])

    def _is_damaged(self, group: str) -> bool:
        return bool(self.dead) or group in self.damaged

    def _damage(self, group: str) -> None:
        """Something of a group's connections is about to be lost: who waits goes on by messages."""
        self.damaged.add(group)
        for where in [where for where in self.held if where[0] == group]:
            for line in self._part(where):
                self._begin(line)

    def _shortened(self, ended: Request) -> list[Request]:
        line = self.lines[ended.rank, ended.group]
        line.remove(ended)
        return line

    def _advance(self, exchange: Exchange, group: str) -> list[list[Request]]:
        """Let a group's collectives go on; return the lines that are shorter by that."""
        ended = exchange.advance(lambda rank: self.gone(group, rank))
        return [self._shortened(one) for one in ended]

    # ends

    def gone(self, group: str, rank: int) -> BaseException | None:
        """Return the error with a rank that can be reached no more in a group."""
        if rank in self.dead or (self.cuts and (group, rank) in self.cuts):
            return peer_gone(rank)
        return None

    def kill(self, rank: int) -> None:
        """A rank has died: whoever waits for it is told."""
        for group in {where[0] for where in self.held}:
            self._damage(group)
        self.dead.add(rank)
        self._leave(rank, None)

    def cut(self, group: str, rank: int) -> None:
        """A rank's wait has timed out: it closes all of its connections in the group."""
        self._damage(group)
        self.cuts.add((group, rank))
        self._leave(rank, group)

    def _leave(self, rank: int, only: str | None) -> None:
        for request in self._with(rank, only):
            if not request.ended:
                request.error = RuntimeError(CLOSED) if request.rank == rank else peer_gone(rank)
        for (group, destination, _), waiting in self.free.items():
            for receive in list(waiting):
                others = [member for member in receive.members if member != destination]
                if destination == rank or all(self.gone(group, o) is not None for o in others):
                    receive.error = receive.error or peer_gone(rank)
                    waiting.remove(receive)
        for meeting in self.meetings.values():
            self._gather(meeting)
        for group, exchange in self.exchanges.items():
            if only in (None, group):
                self._leave_collectives(exchange, group, rank, cut=only is not None)

    def _leave_collectives(self, exchange: Exchange, group: str, rank: int, *, cut: bool) -> None:
        for request in self.lines[rank, group] if cut else ():
            request.error = RuntimeError(CLOSED)
        exchange.stop(rank)
        for line in self._advance(exchange, group):
            self._begin(line)

    def _with(self, rank: int, only: str | None) -> Iterator[Request]:
        """Yield the messages under way between a rank and the others, and forget them."""
        for (group, source, destination, _), channel in self.channels.items():
            if rank in (source, destination) and only in (None, group):
                yield from channel.sends
                yield from channel.receives
                channel.sends.clear()
                channel.receives.clear()


def _next(line: list[Request]) -> Request | None:
    """Return which of a rank's collectives in a group begins now; a barrier after all before it."""
    for place, request in enumerate(line[:WORKERS]):
        if not request.started:
            return request if place == 0 or request.kind != "barrier" else None
    return None
