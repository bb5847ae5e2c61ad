"""From the recorder's tuples to a :class:`~harness.trace.Trace` and its pairing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from harness.matching import Matcher
from harness.recorder import GIVES_UP, INSIDE, KINDS, REQUIRES_GRAD, SEEN
from harness.trace import UNKNOWN_SITE, Compute, Group, Op, RankTrace, Site, State, Trace, Wait

Event = tuple[Any, ...]
_OF_AN_OPERATION = "WDFXM"
_BLOCKED, _DONE = State.BLOCKED, State.DONE  # asked for at every event: no attribute of Enum
_UNLABELLED: tuple[str | None, bool] = None, False


@dataclass(slots=True)
class _Definitions:
    """What one rank's events refer to."""

    sites: dict[int, Site] = field(default_factory=dict)
    actions: dict[int, tuple[str, bool]] = field(default_factory=dict)  # text, planned
    templates: dict[int, tuple[Any, ...]] = field(default_factory=dict)


class Decoder:
    """Feeds events into a trace; each rank's events must come in that rank's order."""

    def __init__(self, world_size: int) -> None:
        self.trace = Trace(world_size)
        self.matcher: Matcher = self.trace.matcher
        self._definitions = [_Definitions() for _ in range(world_size)]
        self._handlers: dict[str, Callable[[RankTrace, Event], None]] = {
            "S": self._site_seen,
            "A": self._action_seen,
            "T": self._template_seen,
            "G": self._group_seen,
            "P": self._posted,
            "W": self._blocked,
            "D": self._done,
            "F": self._failed,
            "X": self._dropped,
            "M": self._modified,
            "C": self._computed,
            "K": self._destroyed,
            "U": self._unusual,
            "Q": self._unseen,
            "N": self._noted,
        }

    def feed(self, events: Iterable[tuple[int, Event]]) -> None:
        """Take (rank, event) pairs in; several ranks' events go best by their time."""
        ranks, handlers = self.trace.ranks, self._handlers
        for rank, event in events:
            history = ranks[rank]
            code, at = event[0], event[1]
            if at > history.last_ns:
                history.last_ns = at
            if code in _OF_AN_OPERATION and event[2] not in history.ops:
                continue  # of one that is not followed
            handlers[code](history, event)
        for op in self.matcher.forgotten:
            self.trace.ranks[op.rank].ops.pop(op.id, None)
        self.matcher.forgotten.clear()

    def _site(self, rank: int, site: int) -> Site:
        return self._definitions[rank].sites.get(site, UNKNOWN_SITE)

    def _noted(self, history: RankTrace, event: Event) -> None:
        history.notes.append(event[2])

    def _site_seen(self, history: RankTrace, event: Event) -> None:
        _, _, site, file, line, function = event
        self._definitions[history.rank].sites[site] = Site(file, line, function)

    def _action_seen(self, history: RankTrace, event: Event) -> None:
        _, _, action, text, planned = event
        self._definitions[history.rank].actions[action] = text, planned

    def _template_seen(self, history: RankTrace, event: Event) -> None:
        *content, site, any_source, splits = event[3:]
        place = self._site(history.rank, site)
        self._definitions[history.rank].templates[event[2]] = *content, place, any_source, splits

    def _group_seen(self, history: RankTrace, event: Event) -> None:
        _, _, name, ranks = event
        self.trace.groups.setdefault(name, Group(name, ranks))
        self.matcher.introduce(name, len(ranks))

    def _posted(self, history: RankTrace, event: Event) -> None:
        _, at, id_, template, action, batch, _ = event
        known = self._definitions[history.rank]
        (kind, api, group, peer, tag, numel, dtype, shape, root, reduce_op, site, any_, splits) = (
            known.templates[template]
        )
        label, planned = known.actions.get(action, _UNLABELLED)
        op = Op(  # in the order of its fields: by name it takes twice as long
            history.rank, id_, kind, api, group, site, at, peer, tag, numel, dtype, shape, root,
            reduce_op, None, batch - 1 if batch else None, label, planned, any_, splits,
        )  # fmt: skip
        trace = self.trace
        if trace.unproven is not None or (group in trace.opaque and op.is_collective):
            return
        history.ops[id_] = op
        self.matcher.post(op)

    def _blocked(self, history: RankTrace, event: Event) -> None:
        _, at, id_, thread, site, others, flags = event
        op = history.ops[id_]
        op.state, op.blocked_ns, op.blocking = _BLOCKED, at, bool(flags & INSIDE)
        if site:
            op.wait_site = self._site(history.rank, site)
        history.waits[thread] = Wait(op, at, thread, bool(flags & GIVES_UP), others)

    def _done(self, history: RankTrace, event: Event) -> None:
        _, at, id_, thread, source, _, _ = event
        op = history.ops[id_]
        history.waits.pop(thread, None)
        op.state, op.ended_ns = _DONE, at
        if op.any_source and source:
            ranks = self.trace.groups[op.group].ranks
            self.matcher.resolve(op, ranks[source - 1] if source <= len(ranks) else source - 1)
        self.matcher.ended(op)

    def _failed(self, history: RankTrace, event: Event) -> None:
        _, at, id_, thread = event[:4]
        op = history.ops[id_]
        was_waited_for = op.state is State.BLOCKED
        history.waits.pop(thread, None)
        op.state, op.ended_ns = State.FAILED, at
        if was_waited_for:
            self.matcher.ended(op)
        else:
            self.matcher.refuse(op)

    def _dropped(self, history: RankTrace, event: Event) -> None:
        op = history.ops[event[2]]
        op.state, op.ended_ns = State.DROPPED, event[1]
        self.matcher.withdraw(op)
        self.matcher.ended(op)

    def _modified(self, history: RankTrace, event: Event) -> None:
        op = history.ops[event[2]]
        op.overwritten = True
        if event[6] & SEEN and op.touched is None:
            op.touched = self._site(history.rank, event[3])

    def _computed(self, history: RankTrace, event: Event) -> None:
        _, end, stage, microbatch, site, taken, flags = event
        rank, start, place = history.rank, end - taken * 1000, self._site(history.rank, site)
        kind, whole = KINDS[flags & 3], bool(flags & REQUIRES_GRAD)
        history.computes.append(Compute(rank, stage, kind, microbatch, start, end, place, whole))

    def _destroyed(self, history: RankTrace, event: Event) -> None:
        _, at, name, site = event
        history.destroyed.append((name, at, self._site(history.rank, site)))

    def _unusual(self, history: RankTrace, event: Event) -> None:
        """Forget every operation: whom a peer's number means is not known here."""
        self.trace.unproven = event[2]
        for each in self.trace.ranks:
            each.ops.clear()
            each.waits.clear()
        self.trace.matcher = self.matcher = Matcher()

    def _unseen(self, history: RankTrace, event: Event) -> None:
        """Forget the group's collectives: their numbers are not the backend's any more."""
        group = event[2]
        self.trace.opaque.add(group)
        for each in self.trace.ranks:
            for op in [op for op in each.ops.values() if op.is_collective and op.group == group]:
                del each.ops[op.id]
            for thread, wait in list(each.waits.items()):
                if wait.op.is_collective and wait.op.group == group:
                    del each.waits[thread]
        meetings = self.matcher.meetings
        for meeting in [meeting for meeting in meetings if meeting[0] == group]:
            del meetings[meeting]
