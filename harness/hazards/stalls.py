"""Whether a lowered plan comes to its end under each semantics: without a run, in linear time.

The rules are those of :mod:`harness.hazards.queues`, for sends and receives alone, on numbers
(:mod:`harness.hazards.messages`). They are monotone, so the order in which ranks are driven makes
no difference, and what finishes under a strict semantics finishes under a lenient one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from harness.hazards.messages import Messages

Condition = tuple[str, float]
"""A semantics and its capacity; of gloo the capacity is 0, of buffered sends inf."""

GLOO: Condition = ("gloo", 0)
BUFFERED: Condition = ("buffered", inf)
STRICTER: dict[Condition, tuple[Condition, ...]] = {
    ("nccl-eager", 0): (),
    ("nccl-lazy", 0): (),
    ("nccl-eager", inf): (("nccl-eager", 0),),
    ("nccl-lazy", inf): (("nccl-lazy", 0),),
    GLOO: (("nccl-eager", 0),),
    BUFFERED: (GLOO, ("nccl-eager", inf)),
}
"""Each condition with those under which a plan finishes only if it does so under this one."""


@dataclass(frozen=True, slots=True)
class Stall:
    """Where ranks stand that never come to their end."""

    condition: Condition
    blocked: dict[int, int]
    """Rank → the operation that it waits for, or in whose call it is held."""
    held: frozenset[int]
    """The ranks that are held inside a call, until their communicator is made."""
    posted: Sequence[int]
    """By rank, the number after the last operation that it has posted."""
    done: bytearray
    """By operation, whether it is complete."""


def find_stalls(messages: Messages) -> dict[Condition, Stall | None]:
    """Return under each condition where the plan stops; None where it comes to its end."""
    if messages.policy.batched:
        return _find_batched(messages)
    found: dict[Condition, Stall | None] = {}
    for condition, stricter in STRICTER.items():
        if any(found[other] is None for other in stricter):
            found[condition] = None
        else:
            found[condition] = _Singles(messages, condition).run()
    return found


def _find_batched(messages: Messages) -> dict[Condition, Stall | None]:
    """Do so where what stands between two computes is one batch, and waited for at once.

    No more than one batch of a rank is in a queue then: NCCL's order holds nothing up, and its
    capacity does what gloo's does. But a group's communicator that is made at its first use
    needs all ranks to come there, and none has done anything before.
    """
    ends = [messages.batch_ends(rank) for rank in range(messages.plan.world)]
    strict = _Batches(messages, ends, buffered=False).run(GLOO)
    lenient = strict and _Batches(messages, ends, buffered=True).run(BUFFERED)
    found: dict[Condition, Stall | None] = {}
    for condition in STRICTER:
        stall = lenient if condition[1] == inf else strict
        if condition[0] == "nccl-lazy" and any(ends) and not all(ends):
            stall = _held(messages, ends)
        found[condition] = stall and replace(stall, condition=condition)
    return found


def _held(messages: Messages, ends: Sequence[array[int]]) -> Stall:
    """Return how ranks are held in their first call, where some do not communicate at all."""
    ranks = range(messages.plan.world)
    blocked = {rank: messages.base[rank] for rank in ranks if ends[rank]}
    posted = [messages.base[rank] + bool(ends[rank]) for rank in ranks]
    return Stall(GLOO, blocked, frozenset(blocked), posted, bytearray(messages.count))


class _Batches:
    """Ranks that wait for all of a batch: that the counterparts of its parts are posted."""

    def __init__(self, messages: Messages, ends: Sequence[array[int]], *, buffered: bool) -> None:
        self._messages, self._ends, self._buffered = messages, ends, buffered
        self._posted = messages.base[:-1]
        self._awaited = messages.base[:-1]
        self._wanted = bytearray(messages.count)  # by operation, whether its partner's rank waits
        self._ready = list(range(messages.plan.world))

    def run(self, condition: Condition) -> Stall | None:
        while self._ready:
            self._drive(self._ready.pop())
        last = self._messages.base[1:]
        blocked = {rank: at for rank, at in enumerate(self._awaited) if at < last[rank]}
        if not blocked:
            return None
        return Stall(condition, blocked, frozenset(), self._posted, self._done())

    def _drive(self, rank: int) -> None:
        messages, posted, wanted = self._messages, self._posted, self._wanted
        partner, peer, is_send = messages.partner, messages.peer, messages.is_send
        buffered, ends = self._buffered, self._ends[rank]
        at, upto = self._awaited[rank], posted[rank]
        batch = bisect_right(ends, upto)
        while True:
            while at < upto:
                other = partner[at]
                if 0 <= other < posted[peer[at]] or (buffered and is_send[at]):
                    at += 1
                    continue
                if other >= 0:
                    wanted[other] = 1
                self._awaited[rank] = at
                return
            if batch == len(ends):
                self._awaited[rank] = at
                return
            upto = posted[rank] = ends[batch]
            batch += 1
            found = wanted.find(1, at, upto)
            while found >= 0:
                self._ready.append(peer[found])
                found = wanted.find(1, found + 1, upto)

    def _done(self) -> bytearray:
        """Tell of each operation whether it is complete."""
        messages, buffered = self._messages, self._buffered
        done = bytearray(messages.count)
        for rank, upto in enumerate(self._posted):
            for number in range(messages.base[rank], upto):
                other = messages.partner[number]
                met = other >= 0 and self._posted[messages.peer[number]] > other
                done[number] = met or (buffered and messages.is_send[number])
        return done


class _Singles:
    """Ranks that post sends and receives one by one.

    On gloo each runs once it is posted. On NCCL once all before it in its queue are done: a
    rank's own, or that of the pair, which is there when both ranks have come to it.
    """

    def __init__(self, messages: Messages, condition: Condition) -> None:
        self._messages, self._condition = messages, condition
        self._lazy = condition[0] == "nccl-lazy"
        world, base = messages.plan.world, messages.base
        self._steps = [messages.steps(rank) for rank in range(world)]
        self._at = [0] * world
        self._posted = base[:-1]
        self._running, self._done = bytearray(messages.count), bytearray(messages.count)
        self._ahead, self._behind = self._queues()
        self._came: dict[tuple[int, int], int] = {}  # (rank, peer) → its first operation there
        self._ready = list(range(world))
        self._begun: list[int] = []

    def _queues(self) -> tuple[array[int], array[int]]:
        """Return what is before and behind each operation in its queue; -1 for nothing."""
        messages = self._messages
        ahead, behind = (array("i", [-1]) * messages.count for _ in range(2))
        if not self._condition[0].startswith("nccl"):
            return ahead, behind
        last: dict[tuple[int, int], int] = {}
        for number, (rank, peer) in enumerate(zip(messages.owner, messages.peer, strict=True)):
            queue = rank, peer if self._lazy else -1
            if (before := last.get(queue, -1)) >= 0:
                ahead[number], behind[before] = before, number
            last[queue] = number
        return ahead, behind

    def run(self) -> Stall | None:
        while self._ready:
            self._drive(self._ready.pop())
        world, messages = self._messages.plan.world, self._messages
        unfinished = [rank for rank in range(world) if self._at[rank] < len(self._steps[rank])]
        if not unfinished:
            return None
        steps = {rank: self._steps[rank][self._at[rank]] for rank in unfinished}
        blocked = {rank: step if step >= 0 else ~step for rank, step in steps.items()}
        # A call that holds its rank has posted its operation.
        held = frozenset(rank for rank, step in steps.items() if step >= 0)
        assert all(messages.owner[number] == rank for rank, number in blocked.items())
        return Stall(self._condition, blocked, held, self._posted, self._done)

    def _drive(self, rank: int) -> None:
        """Let a rank go on until it has to wait: whatever ends its wait makes it ready again."""
        steps, done = self._steps[rank], self._done
        while self._at[rank] < len(steps):
            step = steps[self._at[rank]]
            if step < 0:
                if not done[~step]:
                    return
            elif not self._post(rank, step):
                return
            self._at[rank] += 1

    def _post(self, rank: int, number: int) -> bool:
        """Post an operation; False while the call holds its rank."""
        self._posted[rank] = number + 1
        if self._lazy:
            peer = self._messages.peer[number]
            is_first = self._came.setdefault((rank, peer), number) == number
            if (peer, rank) not in self._came:
                return False
            if is_first:  # and the other rank has waited in its call
                self._begin(self._came[peer, rank])
                self._ready.append(peer)
        self._begin(number)
        return True

    def _begin(self, number: int) -> None:
        """Run an operation if its turn has come, and all whose turn comes by that."""
        if self._running[number] or ((ahead := self._ahead[number]) >= 0 and not self._done[ahead]):
            return
        messages = self._messages
        self._begun.append(number)
        while self._begun:
            number = self._begun.pop()
            self._running[number] = 1
            if self._condition[1] == inf and messages.is_send[number]:
                self._finish(number)
            other = messages.partner[number]
            if other >= 0 and self._running[other]:
                self._finish(number)
                self._finish(other)

    def _finish(self, number: int) -> None:
        if self._done[number]:
            return
        self._done[number] = 1
        rank = self._messages.owner[number]
        self._ready.append(rank)
        behind = self._behind[number]
        if not 0 <= behind < self._posted[rank] or self._running[behind]:
            return
        if not self._lazy or self._is_made(behind):
            self._begun.append(behind)

    def _is_made(self, number: int) -> bool:
        rank, peer = self._messages.owner[number], self._messages.peer[number]
        return (rank, peer) in self._came and (peer, rank) in self._came
