"""What each rank sent and received, by checksum, and where the two sides do not agree."""

from __future__ import annotations

import weakref
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from harness.checkers.phrases import operation
from harness.findings import Finding
from harness.trace import Op
from harness.worlds import Outcome

Stream = tuple[str, int, int, int]  # group, source, destination, tag
Sums = dict[Stream, list[tuple[int, int] | None]]
"""Of each message of a stream its length in bytes and its checksum; None where it was not seen."""


@dataclass(frozen=True, slots=True)
class Told:
    """One rank's ledger."""

    sent: Sums
    received: Sums


@dataclass(frozen=True, slots=True)
class Noted:
    """A rank's result, with its ledger."""

    result: Any
    told: Told


@dataclass(slots=True)
class Ledger:
    """Notes one rank's messages as its program sees them."""

    rank: int
    sent: Sums = field(default_factory=lambda: defaultdict(list))
    received: Sums = field(default_factory=lambda: defaultdict(list))
    unclear: set[tuple[str, int]] = field(default_factory=set)  # group, tag
    """Where a receive from any source may have taken any of the messages."""
    _pending: dict[int, tuple[Any, Any, Stream, int]] = field(default_factory=dict)

    def sends(self, group: Any, tensors: Any, peer: int, tag: int = 0) -> None:
        """Note what a send is given."""
        stream = (str(group.group_name), self.rank, _global(group, peer), tag)
        self.sent[stream].append(_sum(tensors[0]))

    def receives(self, work: Any, group: Any, tensors: Any, peer: int, tag: int = 0) -> None:
        """Note that a receive was posted; what it brings is seen after its wait."""
        stream = (str(group.group_name), _global(group, peer), self.rank, tag)
        place = len(self.received[stream])
        self.received[stream].append(None)
        held = (weakref.ref(work), weakref.ref(tensors[0]), stream, place)  # the program's own
        self._pending[id(work)] = held

    def receives_any(self, group: Any, tensors: Any, tag: int = 0) -> None:
        """Note that a receive from any source was posted."""
        self.unclear.add((str(group.group_name), tag))

    def came(self, work: Any) -> None:
        """Note what a receive has brought."""
        if (found := self._pending.pop(id(work), None)) is None or found[0]() is not work:
            return
        _, tensor, stream, place = found
        if (buffer := tensor()) is not None:
            self.received[stream][place] = _sum(buffer)

    def told(self) -> Told:
        """Return what travels back from the rank."""
        clear = {s: sums for s, sums in self.received.items() if (s[0], s[3]) not in self.unclear}
        return Told(dict(self.sent), clear)


def _global(group: Any, peer: int) -> int:
    import torch.distributed as dist

    return dist.get_global_rank(group, peer)


def _sum(tensor: Any) -> tuple[int, int] | None:
    """Return a tensor's length in bytes and its checksum; None for one without plain bytes."""
    import torch

    try:
        flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8).cpu()
    except (RuntimeError, NotImplementedError):
        return None
    return flat.numel(), zlib.crc32(flat.numpy())


def settled(outcome: Outcome) -> list[Finding]:
    """Take the ledgers out of the ranks' results; return the first message that was changed.

    Only where all ranks came to their ends: else what is wrong shows in how they did.
    """
    told: list[Told] = []
    for rank in outcome.ranks:
        if isinstance(rank.result, Noted):
            told.append(rank.result.told)
            rank.result = rank.result.result
    if len(told) < len(outcome.ranks):
        return []
    return [finding for finding in [_changed(outcome, told)] if finding is not None]


def _changed(outcome: Outcome, told: list[Told]) -> Finding | None:
    for source, ledger in enumerate(told):
        for stream, sent in ledger.sent.items():
            received = told[stream[2]].received.get(stream, [])
            for place, (given, came) in enumerate(zip(sent, received, strict=False)):
                if given is not None and came is not None and given != came and given[0] == came[0]:
                    return _finding(outcome, stream, source, place)
    return None


def _finding(outcome: Outcome, stream: Stream, source: int, place: int) -> Finding:
    _, _, target, tag = stream
    sends: Iterator[Op] = (
        op
        for op in outcome.trace.ranks[source].ops.values()
        if op.kind == "send" and op.peer == target and op.tag == tag
    )
    send = next((op for at, op in enumerate(sends) if at == place), None)
    receive = None if send is None else send.match
    return Finding(
        "buffer-overwrite",
        f"rank {target} received from rank {source} something else than rank {source} had sent",
        "look for what writes into the tensor between the send and its end",
        ranks=tuple(sorted((source, target))),
        operations=tuple(operation(op) for op in (send, receive) if op is not None),
        time_ns=0 if receive is None else receive.posted_ns,
    )
