"""The messages inside a collective: gloo's algorithms are programs that send and receive.

Each rank's part is a generator that posts sends and receives on its :class:`Wire` and yields what
it waits for. A part ends, hangs or is aborted by the same rules as any other message: so that
ranks which disagree in a root, a size or a type come to what they come to on gloo.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from torch import Tensor

from harness.worlds.simulated.request import Request


@dataclass(slots=True, eq=False)
class Transfer:
    """One send or receive of some bytes, with a rank of the group."""

    peer: int  # global
    data: Tensor
    done: bool = False


Steps = Iterator[Transfer]
Key = tuple[str, int, int, int]  # slot, tag, source, destination
Algorithm = Callable[["Wire"], Steps]


@dataclass(slots=True, eq=False)
class Channel:
    """What one rank sends another in one collective: first in, first out."""

    sends: deque[Transfer] = field(default_factory=deque)
    receives: deque[Transfer] = field(default_factory=deque)
    ready: int = 0  # receives that the source knows of, and has sent nothing for


@dataclass(slots=True, eq=False)
class Wire:
    """One rank's end of a collective; peers are group ranks.

    ``slot`` names the algorithm, and ``tag`` counts: messages of different ones never meet.
    """

    exchange: Exchange
    request: Request
    slot: str
    tag: int

    @property
    def size(self) -> int:
        """Return how many ranks there are."""
        return len(self.request.members)

    @property
    def rank(self) -> int:
        """Return this one's number in the group."""
        return self.request.members.index(self.request.rank)

    def next(self, number: int) -> Wire:
        """Return the end of a later one of several collectives that make up this one."""
        return Wire(self.exchange, self.request, self.slot, self.tag + number)

    def _channel(self, source: int, destination: int) -> Key:
        return self.slot, self.tag, source, destination

    def send(self, peer: int, data: Tensor) -> Transfer:
        """Post a send; the data must stay as they are until it is done."""
        sent = Transfer(self.request.members[peer % self.size], data)
        key = self._channel(self.request.rank, sent.peer)
        self.exchange.channel(key).sends.append(sent)
        self.exchange.move(key)
        return sent

    def receive(self, peer: int, buffer: Tensor) -> Transfer:
        """Post a receive into a buffer; a shorter message fills it in part."""
        received = Transfer(self.request.members[peer % self.size], buffer)
        me = self.request.rank
        key = self._channel(received.peer, me)
        channel = self.exchange.channel(key)
        channel.receives.append(received)
        if not self.exchange.is_jammed(me, received.peer):
            channel.ready += 1
        self.exchange.move(key)
        return received


@dataclass(slots=True, eq=False)
class _Running:
    request: Request
    steps: Steps
    waiting: Transfer | None = None


Gone = Callable[[int], BaseException | None]  # a global rank → the error with it, where it has left


@dataclass(slots=True, eq=False)
class Exchange:
    """The collectives of a group, as far as its members have come to them.

    ``abort`` is called with a rank whose buffer is too small; ``is_jammed`` says whether what one
    rank sends another arrives no more.
    """

    abort: Callable[[int], None]
    is_jammed: Callable[[int, int], bool]
    running: list[_Running] = field(default_factory=list)
    aborted: set[int] = field(default_factory=set)
    _channels: dict[Key, Channel] = field(default_factory=dict)

    def channel(self, key: Key) -> Channel:
        """Return the channel between two ranks."""
        found = self._channels.get(key)
        if found is None:
            found = self._channels[key] = Channel()
        return found

    def start(self, request: Request) -> None:
        """Let a rank begin its part."""
        part = request.payload
        wire = Wire(self, request, part.slot, request.index)
        self.running.append(_Running(request, part.algorithm(wire)))

    def stop(self, rank: int) -> None:
        """A rank has gone."""
        self.running = [part for part in self.running if part.request.rank != rank]

    def move(self, key: Key) -> None:
        """Send what the source has, and the destination is ready for."""
        (*_, source, destination), channel = key, self._channels[key]
        while channel.sends and channel.ready and destination not in self.aborted:
            sent = channel.sends.popleft()
            channel.ready -= 1
            sent.done = True
            if self.is_jammed(source, destination):
                continue
            received = channel.receives.popleft()
            count = sent.data.numel()
            if count > received.data.numel():
                self.aborted.add(destination)
                return
            received.data[:count].copy_(sent.data)
            received.done = True
        if not (channel.sends or channel.receives or channel.ready):
            del self._channels[key]

    def advance(self, gone: Gone) -> list[Request]:
        """Let every part go on as far as it can; return those that have ended by that."""
        ended: list[Request] = []
        moved = True
        while moved:
            moved = False
            for part in list(self.running):
                if part.request.rank not in self.aborted and self._step(part, gone):
                    moved = True
                    if part.request.ended:
                        self.running.remove(part)
                        ended.append(part.request)
        for rank in sorted(self.aborted & {part.request.rank for part in self.running}):
            self.stop(rank)
            self.abort(rank)  # by which others may end
        return ended

    def _step(self, part: _Running, gone: Gone) -> bool:
        """Let one part go on; return whether it did."""
        request, before = part.request, part.waiting
        if before is not None and not before.done:
            error = gone(before.peer)
            if error is None:
                return False
            request.error = error
            return True
        try:
            part.waiting = next(part.steps)
            while part.waiting.done:
                part.waiting = next(part.steps)
        except StopIteration:
            request.done = True
        except Exception as error:
            request.error = error
        return True


def refusing(error: Exception) -> Algorithm:
    """Return the part of a rank that fails before it communicates."""
    return lambda _: _Failing(error)


@dataclass(slots=True)
class _Failing(Iterator[Transfer]):
    error: Exception

    def __next__(self) -> Transfer:
        raise self.error
