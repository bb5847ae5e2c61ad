"""What is wrong with a plan that hangs or mixes up its messages, as findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from harness.checkers.phrases import ranks_text
from harness.findings import Finding, Operation
from harness.hazards.check import CONDITIONS, Hang, by_root_cause, hang_finding
from harness.hazards.messages import Messages, Swap
from harness.hazards.queues import Communicator, Semantics
from harness.hazards.replay import Replay
from harness.hazards.scripts import Await, Post, Script
from harness.hazards.stalls import Condition, Stall
from harness.hazards.tangle import find_tangle

CROSSING = (
    "post the sends and receives that cross as one batch_isend_irecv on both ranks, or let one "
    "of the two receive first"
)
IN_ORDER = "post the receives of one rank's messages in the order in which it sends them"

GROUP = "0"
"""The one group that a plan's messages are in."""


def swapped(messages: Messages, swap: Swap) -> Finding:
    """Return the finding of a receive that gets another message than its own."""
    send, receive = messages.action(swap.send), messages.action(swap.receive)
    ranks = messages.owner[swap.send], messages.owner[swap.receive]
    return Finding(
        "message-swap",
        f"rank {ranks[1]}'s {receive} gets what rank {ranks[0]} sends by {send}: messages from "
        "one rank to another arrive in the order in which they are sent",
        IN_ORDER,
        ranks=tuple(sorted(ranks)),
        operations=tuple(
            _operation(messages, number, "meets the wrong one")
            for number in (swap.send, swap.receive)
        ),
    )


def stuck(
    messages: Messages, stall: Stall, told: dict[str, str], *, needs_buffering: bool
) -> Finding:
    """Return the finding of a plan that hangs on gloo: a circle of ranks."""
    circle = _circle(messages, stall)
    ranks = [messages.owner[number] for number in circle]
    clauses = [_clause(messages, number) for number in circle]
    behind = len(stall.blocked) - len(ranks)
    more = f"; {behind} more wait for these" if behind else ""
    return Finding(
        "deadlock",
        f"{ranks_text(sorted(ranks))} wait for each other: {'; '.join(clauses)}{more}",
        CROSSING,
        cause="needs-buffering" if needs_buffering else "order",
        ranks=tuple(sorted(ranks)),
        operations=tuple(_operation(messages, number, "blocked") for number in circle),
        details={"semantics": told, "policy": messages.policy.name, "stuck": len(stall.blocked)},
    )


def _circle(messages: Messages, stall: Stall) -> list[int]:
    """Return operations that wait for each other.

    Each rank waits for the one that its operation meets. In a valid plan every message has both
    ends, so that one is not a rank that has finished, and the way leads round.
    """
    rank = min(stall.blocked)
    way: dict[int, int] = {}
    while rank not in way:
        way[rank] = stall.blocked[rank]
        rank = messages.peer[way[rank]]
    first = list(way).index(rank)
    return list(way.values())[first:]


def _clause(messages: Messages, number: int) -> str:
    rank, peer, action = messages.owner[number], messages.peer[number], messages.action(number)
    is_send = messages.is_send[number]
    kind, way, other = ("send", "to", "receive") if is_send else ("receive", "from", "send")
    return (
        f"rank {rank}'s {kind} of {action} {way} rank {peer} needs a {other} that rank {peer} has "
        "not posted"
    )


def _operation(messages: Messages, number: int, state: str) -> Operation:
    action = messages.action(number)
    where = action.origin
    return Operation(
        messages.owner[number],
        "send" if messages.is_send[number] else "recv",
        where.file if where else "<plan>",
        where.line if where else 0,
        where.function if where else "",
        state,
        messages.peer[number],
        action=str(action),
    )


def hazards(
    messages: Messages, stalls: Mapping[Condition, Stall | None], told: dict[str, str]
) -> Iterator[Finding]:
    """Yield a finding for each root cause for which a plan that finishes on gloo hangs on NCCL.

    A warning: how a plan's messages are posted is its comm policy's.
    """
    hangs = []
    for semantics, capacity in CONDITIONS:
        if (stall := stalls[semantics, capacity]) is None:
            continue
        replay = replay_of(messages, stall)
        tangle = find_tangle(replay)
        assert tangle is not None, "a plan that is stuck is stuck from there on"
        hangs.append(Hang(semantics, capacity, replay, tangle))
    for same in by_root_cause(hangs):
        finding = hang_finding(same, told, "warning")
        policy = {"policy": messages.policy.name}
        yield finding.with_(details=finding.details | policy)


def replay_of(messages: Messages, stall: Stall) -> Replay:
    """Replay what is left where a plan stopped: what was posted and is not done, and the waits."""
    semantics, capacity = stall.condition
    scripts = [_left(messages, stall, rank) for rank in range(messages.plan.world)]
    made = frozenset(_made(messages, stall))
    return Replay(scripts, cast(Semantics, semantics), capacity, made=made)


def _left(messages: Messages, stall: Stall, rank: int) -> Script:
    """Return the script of what a rank has posted that is not done, or not yet received."""
    left = []
    for number in range(messages.base[rank], stall.posted[rank]):
        other = messages.partner[number]
        posted = other >= 0 and other < stall.posted[messages.owner[other]]
        if not stall.done[number] or (posted and not stall.done[other]):
            left.append(number)
    held = rank in stall.held
    script: Script = [
        Post(
            what=messages.action(number),
            kind="send" if messages.is_send[number] else "recv",
            group=GROUP,
            members=tuple(range(messages.plan.world)),
            peer=messages.peer[number],
            batch=0 if messages.policy.batched else None,
            closes=messages.policy.batched and number == left[-1] and not held,
        )
        for number in left
    ]
    if rank in stall.blocked and not held:
        batch = left if messages.policy.batched else [stall.blocked[rank]]
        script += [Await(left.index(number)) for number in batch]
    return script


def _made(messages: Messages, stall: Stall) -> Iterator[Communicator]:
    """Yield the communicators that both ranks of a pair, or all of the group, have come to."""
    if messages.policy.batched:
        if not stall.held:
            yield Communicator(GROUP)
        return
    came = {
        (rank, messages.peer[number])
        for rank in range(messages.plan.world)
        for number in range(messages.base[rank], stall.posted[rank])
    }
    for rank, peer in came:
        if rank < peer and (peer, rank) in came:
            yield Communicator(GROUP, (rank, peer))
