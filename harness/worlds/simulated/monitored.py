"""The monitored barrier: on gloo it is made of messages, under tags that collectives use up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch

from harness.worlds.simulated.data import Message
from harness.worlds.simulated.request import Request

FOR_EVER_NS = 86_400 * 10**9
KIND = "monitored_barrier"


def barrier(group: Any, limit: timedelta, wait_all_ranks: bool) -> None:
    """Let the first rank hear of all the others, and then tell them.

    Only the first gives up, after ``limit``: the others would not know who is missing. RuntimeError
    on it names the missing one, or all of them with ``wait_all_ranks``.
    """
    simulation, (first, *others) = group.simulation, group.members
    me = group.members[group.rank()]
    tag = simulation.network.next_tag(me, group.key, KIND, 2)

    def post(kind: str, peer: int, number: int) -> Request:
        buffer = Message(torch.zeros(1, dtype=torch.int32))
        request = Request(me, kind, group.key, group.members, peer, tag + number, 4, payload=buffer)
        simulation.post(request)
        return request

    if me != first:
        requests = [post("send", first, 0), post("recv", first, 1)]
        for request in requests:
            if not request.ended:
                simulation.scheduler.block(lambda r=request: r.ended, FOR_EVER_NS)
            if request.error is not None:
                raise RuntimeError(
                    f"Rank {group.rank()} successfully reached monitoredBarrier, but received "
                    f"errors while waiting for send/recv from rank 0: {request.error}"
                )
        return
    until = simulation.scheduler.now_ns + int(limit.total_seconds() * 1e9)
    for kind, number in (("recv", 0), ("send", 1)):
        _monitor(group, [post(kind, o, number) for o in others], until, limit, wait_all_ranks)


def _monitor(
    group: Any, requests: list[Request], until: int, limit: timedelta, wait_all_ranks: bool
) -> None:
    scheduler, late = group.simulation.scheduler, []
    for request in requests:
        if not request.ended:
            scheduler.block(lambda r=request: r.ended, max(0, until - scheduler.now_ns))
        if not request.done:
            late.append(group.members.index(request.peer))
            if not wait_all_ranks:
                break
    if not late:
        return
    group.simulation.cut(requests[0])
    many = len(late) > 1
    raise RuntimeError(
        f"{'[Rank 0]: ' if many else ''}Rank{'s' if many else ''} {', '.join(map(str, late))} "
        f"failed to pass monitoredBarrier in {limit.total_seconds() * 1000:.0f} ms"
    )
