"""The messages of a lowered plan as numbers: who meets whom, and in which order ranks wait."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.actions import Action
from pipeline.coded import (
    BACKWARDS,
    COMMS,
    FORWARD,
    KINDS,
    NUMBERS,
    RECV_B,
    RECV_F,
    SEND_B,
    SEND_F,
    SENDS,
)
from pipeline.lower import Policy, get_policy
from pipeline.plan import Plan

STEP = {SEND_F: +1, RECV_F: -1, SEND_B: -1, RECV_B: +1}
"""From one end's stage to the other's."""


@dataclass(frozen=True, slots=True)
class Swap:
    """A receive that gets another message than its own: both ends, as numbers of operations."""

    send: int
    receive: int


class _Channel(NamedTuple):
    """What one rank sends to another: numbers of operations, and of the messages they are for."""

    sends: array[int]
    sent: array[int]
    receives: array[int]
    received: array[int]


_Way = tuple[Callable[[int], None], Callable[[int], None], int, int]
"""To append an operation's number and its message's to; the message of microbatch 0; the peer."""

_COMPUTES = bytes(kind for kind in range(len(KINDS)) if kind not in COMMS)
_IS_SEND = bytes(kind in SENDS for kind in range(256))


class Messages:
    """All sends and receives of a plan, numbered by rank and then in the order of posting.

    The n-th send of one rank to another meets the n-th receive there: there are no tags.
    """

    def __init__(self, plan: Plan, policy: Policy | str) -> None:
        self.plan = plan
        self.policy = get_policy(policy)
        self.base = [0]
        """By rank, the number of its first operation; and after the last, how many there are."""
        self.partner: array[int] = array("i")
        """The operation that each meets, -1 for none."""
        self.owner: array[int] = array("H" if plan.world <= 0xFFFF else "i")
        self.peer: array[int] = array(self.owner.typecode)
        self.is_send = bytearray()
        self.swap: Swap | None = None
        """The first receive that gets another message than its own."""
        self._pair_up()

    @property
    def count(self) -> int:
        """How many sends and receives there are."""
        return len(self.partner)

    def _pair_up(self) -> None:
        channels: dict[tuple[int, int], _Channel] = {}
        for rank, row in enumerate(self.plan.coded.rows):
            ways: dict[tuple[int, int], _Way] = {}  # by kind and stage
            comms = row.kinds.translate(None, _COMPUTES)
            self.is_send += comms.translate(_IS_SEND)
            self.owner.extend(array(self.owner.typecode, [rank]) * len(comms))
            number, add_peer = self.base[-1], self.peer.append
            for kind, stage, microbatch in row.parts():
                if kind not in COMMS:
                    continue
                way = ways.get((kind, stage))
                if way is None:
                    way = ways[kind, stage] = self._way(rank, kind, stage, channels)
                add_number, add_message, first, peer = way
                add_number(number)
                add_message(first + microbatch)
                add_peer(peer)
                number += 1
            self.base.append(number)
        self.partner = array("i", [-1]) * self.base[-1]
        for channel in channels.values():
            self._meet(channel)

    def _way(
        self, rank: int, kind: int, stage: int, channels: dict[tuple[int, int], _Channel]
    ) -> _Way:
        """Return what a message of one kind and stage is told to, on its channel."""
        other = stage + STEP[kind]
        peer = self.plan.placement[other]
        sends = kind in SENDS
        ends = (rank, peer) if sends else (peer, rank)
        channel = channels.setdefault(
            ends, _Channel(array("i"), array("q"), array("i"), array("q"))
        )
        # A message is named by what receives it.
        received = 2 * (other if sends else stage) + (kind in (SEND_F, RECV_F))
        first = received * self.plan.chunks
        if sends:
            return channel.sends.append, channel.sent.append, first, peer
        return channel.receives.append, channel.received.append, first, peer

    def _meet(self, channel: _Channel) -> None:
        """Let the n-th send of a channel meet its n-th receive."""
        partner = self.partner
        for send, receive in zip(channel.sends, channel.receives, strict=False):
            partner[send], partner[receive] = receive, send
        met = min(len(channel.sends), len(channel.receives))
        if self.swap is None and channel.sent[:met] != channel.received[:met]:
            both = zip(channel.sent, channel.received, strict=False)
            at = next(place for place, (one, other) in enumerate(both) if one != other)
            self.swap = Swap(channel.sends[at], channel.receives[at])

    def batch_ends(self, rank: int) -> array[int]:
        """Return, under a batched policy, the number after the last operation of each batch."""
        ends = array("i")
        number, previous = self.base[rank], False
        for kind in self.plan.coded.rows[rank].kinds:
            is_comm = kind in COMMS
            if previous and not is_comm:
                ends.append(number)
            number += is_comm
            previous = is_comm
        if previous:
            ends.append(number)
        return ends

    def steps(self, rank: int) -> array[int]:
        """Return what a rank does where nothing is batched: n to post operation n, ~n to await it.

        As :func:`pipeline.executor.run_step` does it.
        """
        steps = array("q")
        pending: dict[tuple[int, int, int], int] = {}
        number = self.base[rank]
        later = frozenset(map(NUMBERS.__getitem__, self.policy.asynchronous))
        for part in self.plan.coded.rows[rank].parts():
            kind, stage, microbatch = part
            if kind in COMMS:
                steps.append(number)
                if kind in later:
                    pending[part] = number
                else:
                    steps.append(~number)
                number += 1
            elif kind == FORWARD:
                _await(steps, pending, (RECV_F, stage, microbatch))
            elif kind in BACKWARDS:
                _await(steps, pending, (RECV_B, stage, microbatch))
                _await(steps, pending, (SEND_F, stage, microbatch))
        steps.extend(~number for number in pending.values())
        return steps

    def action(self, number: int) -> Action:
        """Return the send or receive of a number."""
        rank = bisect_right(self.base, number) - 1
        left = number - self.base[rank]
        for at, kind in enumerate(self.plan.coded.rows[rank].kinds):
            left -= kind in COMMS
            if left < 0:
                return self.plan.action(rank, at)
        raise AssertionError(f"operation {number} is in no row")


def _await(
    steps: array[int], pending: dict[tuple[int, int, int], int], part: tuple[int, int, int]
) -> None:
    if part in pending:
        steps.append(~pending.pop(part))
