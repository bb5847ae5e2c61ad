"""Pairs the sends and the receives of one rank under one tag of a group, as gloo does.

First in, first out by post order on each side, whatever order they are waited for. A receive from
any source joins the queue of its source once that is known; until then nobody can say which
message a receive posted after it gets. Measured on gloo: one from any source takes a message that
is there already, else one posted later from a named source may be given it first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.trace import Op, State

Pair = tuple[Op, Op]  # a send and its receive

UNDER_WAY = 1024  # pairs of one channel that are kept because an end of them is still pending
UNKNOWN = 1024  # receives from any source whose sender never became known


@dataclass(slots=True)
class Channel:
    """The messages from one source: what is not yet paired, and the pairs still under way."""

    sends: deque[Op] = field(default_factory=deque)
    receives: deque[Op] = field(default_factory=deque)
    pairs: deque[Pair] = field(default_factory=deque)
    aside: deque[Op] = field(default_factory=lambda: deque(maxlen=UNDER_WAY))
    """Those that were passed over because they were withdrawn: an older one may yet meet them."""
    unordered: set[int] = field(default_factory=set)  # receives that may have changed places
    lost_from: int | None = None  # the receive from which on nobody can ever say any more

    def post(self, op: Op) -> list[Pair]:
        """Take in a send or a receive; return the pairs that this makes."""
        (self.sends if op.kind == "send" else self.receives).append(op)
        return self._pair()

    def insert(self, receive: Op) -> list[Pair]:
        """Take in a receive from any source, now known to be of this one, at its place."""
        later = next((r for _, r in self.pairs if r.id > receive.id), None)
        if later is not None:
            self._undo(later)
        self._reinstate()
        queue = sorted([*self.receives, receive], key=lambda op: op.id)
        self.receives = deque(queue)
        ended = receive.ended_ns or 0
        overlapping = [
            op.id
            for op in queue
            if op.id > receive.id and not op.any_source and op.posted_ns < ended
        ]
        if overlapping:
            self.unordered.update(o.id for o in queue if receive.id <= o.id <= overlapping[-1])
        return self._pair()

    def part(self, op: Op) -> list[Pair]:
        """Pair anew from ``op`` on: it was withdrawn."""
        self._undo(op)
        return self._pair()

    def remove(self, op: Op) -> list[Pair]:
        """Forget an operation that the backend refused."""
        self._undo(op)
        queue = self.sends if op.kind == "send" else self.receives
        if op in queue:
            queue.remove(op)
        return self._pair()

    def _pair(self) -> list[Pair]:
        made = []
        while self.sends and self.receives:
            send, receive = self.sends[0], self.receives[0]
            if withdrawn_before(send, receive):
                self.aside.append(self.sends.popleft())
            elif withdrawn_before(receive, send):
                self.aside.append(self.receives.popleft())
            else:
                made.append((self.sends.popleft(), self.receives.popleft()))
                send.match, receive.match = receive, send
        self.pairs.extend(made)
        return made

    def _reinstate(self) -> None:
        """Put back what was passed over: pairing anew passes it over again, or does not."""
        back = [*self.aside]
        self.aside.clear()
        for op in reversed(back):
            (self.sends if op.kind == "send" else self.receives).appendleft(op)
        if back:
            self.sends = deque(sorted(self.sends, key=lambda op: op.id))
            self.receives = deque(sorted(self.receives, key=lambda op: op.id))

    def _undo(self, op: Op) -> None:
        """Take back every pair from that of ``op`` on."""
        for at, pair in enumerate(self.pairs):
            if op in pair:
                for send, receive in [self.pairs.pop() for _ in range(len(self.pairs) - at)]:
                    send.match = receive.match = None
                    send.doubtful = receive.doubtful = False
                    self.sends.appendleft(send)
                    self.receives.appendleft(receive)
                return

    def take_ended(self, is_open: Callable[[Op], bool]) -> list[Pair]:
        """Take out the pairs of which nothing can change any more."""
        ended: list[Pair] = []
        while self.pairs:
            send, receive = self.pairs[0]
            is_over = not (receive.pending or send.pending or is_open(receive))
            if not is_over and len(self.pairs) <= UNDER_WAY:
                break
            self.pairs.popleft()
            self.unordered.discard(receive.id)
            if is_over:
                ended.append((send, receive))
            elif is_open(receive):
                self.lose(receive)
        return ended

    def lose(self, receive: Op) -> None:
        """Give up the order from ``receive`` on."""
        if self.lost_from is None or receive.id < self.lost_from:
            self.lost_from = receive.id

    def is_certain(self, receive: Op) -> bool:
        """Whether the order is known up to ``receive``, but for what is still open."""
        lost = self.lost_from is not None and receive.id >= self.lost_from
        return not lost and receive.id not in self.unordered

    @property
    def has_untaken_send(self) -> bool:
        """Whether a send is there that no finished receive has taken."""
        return bool(self.sends) or any(receive.pending for _, receive in self.pairs)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing here to remember."""
        return not (self.sends or self.receives or self.pairs or self.lost_from is not None)


@dataclass(slots=True)
class Mailbox:
    """What one rank is sent in a group under one tag."""

    channels: dict[int, Channel] = field(default_factory=dict)  # by source
    unknown: list[Op] = field(default_factory=list)  # from any source, the sender not known

    def channel(self, source: int) -> Channel:
        """Return the queue of that source."""
        found = self.channels.get(source)
        if found is None:
            found = self.channels[source] = Channel()
        return found

    def post_unknown(self, receive: Op) -> None:
        """Take in a receive from any source."""
        self.unknown.append(receive)
        if len(self.unknown) > UNKNOWN:
            gone = next((op for op in self.unknown if not op.pending), None)
            if gone is not None:
                self.unknown.remove(gone)

    def resolve(self, receive: Op, source: int) -> list[Pair]:
        """Take in who the sender was; return the pairs that this makes."""
        if receive not in self.unknown:
            return []
        self.unknown.remove(receive)
        return self.channel(source).insert(receive)

    def may_be_taken(self, send: Op) -> bool:
        """Whether a receive may have this send without our knowing."""
        channel = self.channels.get(send.rank)
        if channel is not None and channel.lost_from is not None:
            return True
        return any(not withdrawn_before(receive, send) for receive in self.unknown)

    def is_open(self, receive: Op) -> bool:
        """Whether an earlier receive from any source may yet turn out to have had its message."""
        return bool(self.unknown) and any(
            earlier.id < receive.id and earlier.state is not State.DROPPED
            for earlier in self.unknown
        )

    def _is_lost(self, send: Op, receive: Op) -> bool:
        """Whether one that was dropped may have had it, and moved all that follow by one."""
        return any(
            earlier.id < receive.id
            and earlier.state is State.DROPPED
            and not withdrawn_before(earlier, send)
            for earlier in self.unknown
        )

    def doubt(self) -> None:
        """Mark the pairs that may really be others."""
        for channel in self.channels.values():
            for send, receive in channel.pairs:
                if self._is_lost(send, receive):
                    channel.lose(receive)
                certain = channel.is_certain(receive) and not self.is_open(receive)
                send.doubtful = receive.doubtful = not certain

    @property
    def is_doubtful(self) -> bool:
        """Whether some pairs may really be others."""
        if self.unknown:
            return True
        for channel in self.channels.values():
            if channel.unordered or channel.lost_from is not None:
                return True
        return False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing here to remember."""
        return not self.unknown and all(channel.is_empty for channel in self.channels.values())


def withdrawn_before(op: Op, other: Op) -> bool:
    """Whether the handle of ``op`` was dropped before ``other`` was posted: they never meet."""
    return op.state is State.DROPPED and op.ended_ns is not None and op.ended_ns <= other.posted_ns
