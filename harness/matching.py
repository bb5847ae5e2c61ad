"""Pairs sends with receives and collectives with each other, as the backends do.

Point-to-point: :mod:`harness.channels`. Collectives: by their number on each rank, per group. The
pairing does not depend on the order in which the ranks' histories are read.

What is over is compared once and then forgotten, but for the last of it: a job may run for hours.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from harness import differences
from harness.channels import Mailbox, Pair, withdrawn_before
from harness.trace import Op, Site, State

ChannelKey = tuple[str, int | None, int, int]  # group, source, destination, tag
Meeting = tuple[str, str, int]  # group, sequence, number
Crossing = tuple[str, int, int, Site, Site]  # group, two ranks, where each of them was

KEPT = 2000  # operations of each rank that are kept when they are over
EVIDENCE = 500  # of one kind and place that are kept for ever
_BOXES = 1024  # mailboxes, before the empty ones are swept out
_DISPUTES = 64  # disagreeing pairs of two places, disagreeing meetings
_OWN_SEQUENCE = ("monitored_barrier", "new_group", "init_process_group")


@dataclass(slots=True)
class Matcher:
    """The pairing so far."""

    meetings: dict[Meeting, dict[int, Op]] = field(default_factory=dict)
    kept: int = KEPT
    members: dict[str, int] = field(default_factory=dict)  # group → how many ranks it has
    forgotten: list[Op] = field(default_factory=list)  # for the owner of the trace to let go
    forgotten_meetings: Counter[str] = field(default_factory=Counter)  # by group
    disputes: dict[tuple[object, ...], list[Pair]] = field(default_factory=dict)
    open: dict[Meeting, None] = field(default_factory=dict)  # not all have come and gone
    disputed: dict[Meeting, None] = field(default_factory=dict)  # closed, and they disagree
    places: dict[tuple[int, str], set[Site]] = field(default_factory=dict)
    crossings: dict[Crossing, Pair] = field(default_factory=dict)  # of forgotten meetings
    _boxes: dict[tuple[str, int, int], Mailbox] = field(default_factory=dict)
    _largest: int = 1  # of the groups
    _sweep_at: int = _BOXES
    _counts: dict[tuple[int, str, str], int] = field(default_factory=dict)
    _over: deque[tuple[Op, ...]] = field(default_factory=deque)
    _held: int = 0  # operations in _over
    _evidence: Counter[tuple[object, ...]] = field(default_factory=Counter)

    def introduce(self, group: str, size: int) -> None:
        """Take in how many members a group has."""
        self.members[group] = size
        self._largest = max(self._largest, size)

    def post(self, op: Op) -> None:
        """Take a new operation in."""
        if op.is_collective:
            self._come(op)
        elif op.any_source:
            self._box(op).post_unknown(op)
        else:
            box, source = self._box(op), source_of(op)
            made, again = box.channel(source).post(op), box.is_doubtful
            if made or again:  # else nothing is over by that
                self._after(box, source, made, again=again)

    def _box(self, op: Op) -> Mailbox:
        key = box_key(op)
        box = self._boxes.get(key)
        if box is None:
            if len(self._boxes) >= self._sweep_at:
                self._boxes = {k: b for k, b in self._boxes.items() if not b.is_empty}
                self._sweep_at = max(_BOXES, 2 * len(self._boxes))
            box = self._boxes[key] = Mailbox()
        return box

    def _come(self, op: Op) -> None:
        counter = (op.rank, op.group, sequence_of(op))
        op.index = self._counts.get(counter, 0)
        self._counts[counter] = op.index + 1
        meeting = meeting_of(op)
        self.meetings.setdefault(meeting, {})[op.rank] = op
        self.open[meeting] = None
        self.places.setdefault((op.rank, op.group), set()).add(op.site)

    def _after(self, box: Mailbox, source: int, made: list[Pair], *, again: bool) -> None:
        """Compare the pairs that were made in a mailbox, and file those of it that are over."""
        for send, receive in made:
            if (what := differences.of_message(send, receive)) is not None:
                self._dispute(what, send, receive)
        if again:
            box.doubt()
        for each in box.channels if again else (source,):
            for pair in box.channel(each).take_ended(box.is_open):
                self._file(pair)

    def refuse(self, op: Op) -> None:
        """Take back an operation that the backend refused to post."""
        if op.is_collective:
            self.meetings.get(meeting_of(op), {}).pop(op.rank, None)
            self._counts[op.rank, op.group, sequence_of(op)] -= 1
            return
        box = self._box(op)
        if op.any_source:
            box.unknown = [other for other in box.unknown if other is not op]
            self._after(box, op.rank, [], again=True)
        else:
            source = source_of(op)
            self._after(box, source, box.channel(source).remove(op), again=box.is_doubtful)

    def withdraw(self, op: Op) -> None:
        """The handle of ``op`` was dropped: what is posted later does not meet it."""
        if op.match is not None and withdrawn_before(op, op.match):
            box, source = self._box(op), source_of(op)
            self._after(box, source, box.channel(source).part(op), again=box.is_doubtful)

    def resolve(self, op: Op, source: int) -> None:
        """A receive from any source has ended: ``source`` was the sender."""
        op.source = source
        box = self._box(op)
        self._after(box, source, box.resolve(op, source), again=True)

    def ended(self, op: Op) -> None:
        """``op`` is not pending any more: what it took part in may be over."""
        if not op.is_collective:
            if op.match is not None and not op.match.pending:
                box = self._box(op)
                self._after(box, source_of(op), [], again=box.is_doubtful)
            return
        meeting = meeting_of(op)
        met = self.meetings.get(meeting, {})
        if (
            meeting in self.open
            and len(met) == self.members.get(op.group)
            and not any(part.pending for part in met.values())
        ):
            del self.open[meeting]
            parts = tuple(met[rank] for rank in sorted(met))
            if differences.of_collective(parts) is None:
                self._file(parts)
            elif len(self.disputed) < _DISPUTES:
                self.disputed[meeting] = None
            else:
                self._file(parts)

    def _dispute(self, what: str, send: Op, receive: Op) -> None:
        """Keep a pair that disagrees, unless one of the same two places is certain already."""
        key = (what, send.site, receive.site)
        known = [pair for pair in self.disputes.get(key, ()) if pair[0].match is pair[1]]
        if not any(is_over(pair) for pair in known):
            known.append((send, receive))
        self.disputes[key] = known[-_DISPUTES:]

    def _file(self, parts: tuple[Op, ...]) -> None:
        """Keep what is over for a while; then keep it only where it is evidence."""
        self._over.append(parts)
        self._held += len(parts)
        while self._held > self.kept * self._largest:
            oldest = self._over.popleft()
            self._held -= len(oldest)
            if not self._is_evidence(oldest):
                self._forget(oldest)

    def _is_evidence(self, parts: tuple[Op, ...]) -> bool:
        found = False
        for op in parts:
            if op.overwritten or op.state in (State.DROPPED, State.FAILED):
                kind = (op.site, op.api, op.overwritten, op.state)
                self._evidence[kind] += 1
                found |= self._evidence[kind] <= EVIDENCE
        return found

    def _forget(self, parts: tuple[Op, ...]) -> None:
        first = parts[0]
        if first.is_collective:
            if self.meetings.pop(meeting_of(first), None) is None:
                return  # the group is not followed any more
            self.forgotten_meetings[first.group] += 1
            for other in parts[1:]:
                if may_be_skewed(first, other):
                    key = (first.group, first.rank, other.rank, first.site, other.site)
                    self.crossings.setdefault(key, (first, other))
        self.forgotten.extend(parts)

    def may_be_taken(self, send: Op) -> bool:
        """Whether a receive from any source may have this send, without our knowing yet."""
        box = self._boxes.get(box_key(send))
        return box is not None and box.may_be_taken(send)

    def may_receive(self, op: Op) -> bool:
        """Whether some posted send may still end this receive from any source."""
        box = self._boxes.get(box_key(op))
        return box is not None and any(c.has_untaken_send for c in box.channels.values())

    def unpaired(self) -> Iterator[Op]:
        """Sends and receives that nothing has met."""
        for box in self._boxes.values():
            for channel in box.channels.values():
                yield from channel.sends
                yield from channel.receives

    def met(self, op: Op) -> dict[int, Op]:
        """Which ranks have posted their part of this collective so far."""
        return self.meetings.get(meeting_of(op), {})

    def met_twice(self) -> Iterable[Pair]:
        """Two ranks' parts of every collective that is still known, the lowest rank's first."""
        yield from self.crossings.values()
        for met in self.meetings.values():
            parts = [met[rank] for rank in sorted(met)]
            for other in parts[1:]:
                if may_be_skewed(parts[0], other):
                    yield parts[0], other


def may_be_skewed(first: Op, other: Op) -> bool:
    """Whether the same collective was called from two places, and went well."""
    return (
        first.site != other.site
        and first.kind == other.kind
        and not sequence_of(first)
        and State.FAILED not in (first.state, other.state)
    )


def sequence_of(op: Op) -> str:
    """Collectives that are numbered together: these three have a count of their own."""
    return op.kind if op.kind in _OWN_SEQUENCE else ""


def meeting_of(op: Op) -> Meeting:
    """Return what the ranks' parts of one collective have in common."""
    assert op.index is not None
    return op.group, sequence_of(op), op.index


def box_key(op: Op) -> tuple[str, int, int]:
    """Return the mailbox that a send or a receive belongs to: group, destination, tag."""
    if op.kind == "send":
        assert op.peer is not None
        return op.group, op.peer, op.tag
    return op.group, op.rank, op.tag


def source_of(op: Op) -> int:
    """Return whose message it is; of a receive from any source once that is known."""
    source = op.rank if op.kind == "send" else op.source if op.any_source else op.peer
    assert source is not None
    return source


def channel_key(op: Op) -> ChannelKey:
    """Return the queue that a send or a receive from a named source belongs to."""
    group, destination, tag = box_key(op)
    return group, op.rank if op.kind == "send" else op.peer, destination, tag


def is_over(pair: Pair) -> bool:
    """Whether two operations have certainly met each other, and ended."""
    send, receive = pair
    return not (send.doubtful or send.pending or receive.pending)
