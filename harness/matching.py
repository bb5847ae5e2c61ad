"""Pairs sends with receives and collectives with each other, as the backends do.

Point-to-point: first in, first out per (group, source, destination, tag), by post order on each
side, whatever order they are waited for. Collectives: by their number on each rank, per group.
The pairing does not depend on the order in which the ranks' histories are read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.trace import Op, State

ChannelKey = tuple[str, int | None, int, int]  # group, source, destination, tag
Meeting = tuple[str, str, int]  # group, sequence, number

_OWN_SEQUENCE = ("monitored_barrier", "new_group", "init_process_group")


@dataclass(slots=True)
class Channel:
    """One queue: what is posted and not yet paired, and the pairs that are still under way."""

    sends: deque[Op] = field(default_factory=deque)
    receives: deque[Op] = field(default_factory=deque)
    pairs: deque[tuple[Op, Op]] = field(default_factory=deque)
    ahead: deque[Op] = field(default_factory=deque)  # from any source: took a send not read yet

    def add(self, op: Op) -> None:
        """Post ``op`` and pair what can be paired."""
        if op.kind == "send" and self.ahead:
            _meet(op, self.ahead.popleft())
            return
        (self.sends if op.kind == "send" else self.receives).append(op)
        self._pair()

    def _pair(self) -> None:
        while self.sends and self.receives:
            send, receive = self.sends[0], self.receives[0]
            if _withdrawn_before(send, receive):
                self.sends.popleft()
            elif _withdrawn_before(receive, send):
                self.receives.popleft()
            else:
                self.pairs.append((self.sends.popleft(), self.receives.popleft()))
                _meet(send, receive)
        while self.pairs and not (self.pairs[0][0].pending or self.pairs[0][1].pending):
            self.pairs.popleft()

    def _undo(self, op: Op) -> None:
        """Take back every pair from that of ``op`` on."""
        for at, pair in enumerate(self.pairs):
            if op in pair:
                for send, receive in [self.pairs.pop() for _ in range(len(self.pairs) - at)]:
                    send.match = receive.match = None
                    self.sends.appendleft(send)
                    self.receives.appendleft(receive)
                return

    def part(self, op: Op) -> None:
        """Pair anew from ``op`` on: it was withdrawn."""
        self._undo(op)
        self._pair()

    def remove(self, op: Op) -> None:
        """Forget an operation that the backend refused."""
        self._undo(op)
        queue = self.sends if op.kind == "send" else self.receives
        if op in queue:
            queue.remove(op)
        self._pair()

    def take_send(self, taker: Op) -> None:
        """Give the first send that no finished receive has taken to one from any source."""
        for _, receive in self.pairs:
            if receive.pending:
                self._undo(receive)
                break
        while self.sends and _withdrawn_before(self.sends[0], taker):
            self.sends.popleft()
        if self.sends:
            _meet(self.sends.popleft(), taker)
        else:
            self.ahead.append(taker)
        self._pair()

    @property
    def has_untaken_send(self) -> bool:
        """Whether a send is there that no finished receive has taken."""
        return bool(self.sends) or any(receive.pending for _, receive in self.pairs)


@dataclass(slots=True)
class Matcher:
    """The pairing so far."""

    channels: dict[ChannelKey, Channel] = field(default_factory=dict)
    meetings: dict[Meeting, dict[int, Op]] = field(default_factory=dict)
    wildcards: dict[tuple[str, int, int], list[Op]] = field(default_factory=dict)
    _counts: dict[tuple[int, str, str], int] = field(default_factory=dict)

    def post(self, op: Op) -> None:
        """Take a new operation in."""
        if op.is_collective:
            counter = (op.rank, op.group, sequence_of(op))
            op.index = self._counts.get(counter, 0)
            self._counts[counter] = op.index + 1
            self.meetings.setdefault(meeting_of(op), {})[op.rank] = op
        elif op.any_source:
            self.wildcards.setdefault((op.group, op.rank, op.tag), []).append(op)
        else:
            self._channel(channel_key(op)).add(op)

    def _channel(self, key: ChannelKey) -> Channel:
        return self.channels.setdefault(key, Channel())

    def refuse(self, op: Op) -> None:
        """Take back an operation that the backend refused to post."""
        if op.is_collective:
            self.meetings[meeting_of(op)].pop(op.rank, None)
            self._counts[op.rank, op.group, sequence_of(op)] -= 1
        elif op.any_source:
            self.wildcards[op.group, op.rank, op.tag].remove(op)
        else:
            self._channel(channel_key(op)).remove(op)

    def withdraw(self, op: Op) -> None:
        """The handle of ``op`` was dropped: what is posted later does not meet it."""
        if op.match is not None and _withdrawn_before(op, op.match):
            self._channel(channel_key(op)).part(op)

    def resolve(self, op: Op, source: int) -> None:
        """A receive from any source has ended: ``source`` was the sender."""
        op.source = source
        self.wildcards[op.group, op.rank, op.tag].remove(op)
        self._channel((op.group, source, op.rank, op.tag)).take_send(op)

    def may_be_taken(self, send: Op) -> bool:
        """Whether a receive from any source may have this send, without our knowing yet."""
        assert send.peer is not None
        return any(
            receive.pending
            or (receive.state is State.DROPPED and not _withdrawn_before(receive, send))
            for receive in self.wildcards.get((send.group, send.peer, send.tag), ())
        )

    def may_receive(self, op: Op) -> bool:
        """Whether some posted send may still end this receive from any source."""
        return any(
            channel.has_untaken_send
            for (group, _, destination, tag), channel in self.channels.items()
            if (group, destination, tag) == (op.group, op.rank, op.tag)
        )

    def unpaired(self) -> Iterator[Op]:
        """Sends and receives that nothing has met."""
        for channel in self.channels.values():
            yield from channel.sends
            yield from channel.receives

    def met(self, op: Op) -> dict[int, Op]:
        """Which ranks have posted their part of this collective so far."""
        return self.meetings.get(meeting_of(op), {})


def sequence_of(op: Op) -> str:
    """Collectives that are numbered together: these three have a count of their own."""
    return op.kind if op.kind in _OWN_SEQUENCE else ""


def meeting_of(op: Op) -> Meeting:
    """Return what the ranks' parts of one collective have in common."""
    assert op.index is not None
    return op.group, sequence_of(op), op.index


def channel_key(op: Op) -> ChannelKey:
    """Return the queue that a send or a receive from a named source belongs to."""
    if op.kind == "send":
        assert op.peer is not None
        return op.group, op.rank, op.peer, op.tag
    return op.group, op.peer, op.rank, op.tag


def _meet(send: Op, receive: Op) -> None:
    send.match, receive.match = receive, send


def _withdrawn_before(op: Op, other: Op) -> bool:
    """Whether the handle of ``op`` was dropped before ``other`` was posted: they never meet."""
    return op.state is State.DROPPED and op.ended_ns is not None and op.ended_ns <= other.posted_ns
