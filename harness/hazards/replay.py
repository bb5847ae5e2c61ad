"""Goes through the ranks' scripts under NCCL's rules, as far as they go."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from harness.hazards.queues import Communicator, Queues, Semantics
from harness.hazards.scripts import Await, Post, Script
from harness.worlds.simulated.request import Request


@dataclass(slots=True)
class Host:
    """One rank's program: where it is in its script, and what it has posted."""

    rank: int
    script: Script
    at: int = 0
    posts: list[Request] = field(default_factory=list)
    in_call: Request | None = None  # held inside the call that posts it

    @property
    def finished(self) -> bool:
        """Whether it has come to its end."""
        return self.at == len(self.script) and self.in_call is None


class Replay:
    """The scripts under one semantics and capacity (see :class:`Queues`), run to the end.

    ``order`` is that in which the ranks are given their turns: it makes no difference. ``made``
    are communicators that are there from the start.
    """

    def __init__(
        self,
        scripts: Sequence[Script],
        semantics: Semantics,
        capacity: float,
        *,
        order: Sequence[int] | None = None,
        made: AbstractSet[Communicator] = frozenset(),
    ) -> None:
        self.queues = Queues(semantics, capacity, made=made)
        self.hosts = [Host(rank, script) for rank, script in enumerate(scripts)]
        self._batches: dict[tuple[int, int], list[Request]] = {}
        moved = True
        while moved:
            moved = False
            for rank in range(len(scripts)) if order is None else order:
                while self._step(self.hosts[rank]):
                    moved = True

    @property
    def finishes(self) -> bool:
        """Whether every rank comes to its end."""
        return all(host.finished for host in self.hosts)

    def blocked(self, rank: int) -> list[Request]:
        """Return what a rank is held by for ever: the call it is in, or what it waits for.

        A wait for one operation of a batch is a wait for them all. None for a rank that finishes.
        """
        host = self.hosts[rank]
        if host.finished:
            return []
        if host.in_call is not None:
            return [host.in_call]
        return [one for one in self._together(host, self.awaited(rank)) if not one.ended]

    def awaited(self, rank: int) -> Request:
        """Return the request that a blocked rank's own wait, or call, is for."""
        host = self.hosts[rank]
        if host.in_call is not None:
            return host.in_call
        step = host.script[host.at]
        assert isinstance(step, Await)
        return host.posts[step.post]

    def _together(self, host: Host, request: Request) -> list[Request]:
        if request.batch is None:
            return [request]
        return self._batches[host.rank, request.batch]

    def _step(self, host: Host) -> bool:
        """Let a rank do the next thing of its script; False if it cannot."""
        if host.in_call is not None:
            return self._return_from_call(host)
        if host.at == len(host.script):
            return False
        step = host.script[host.at]
        if isinstance(step, Await):
            if not all(one.ended for one in self._together(host, host.posts[step.post])):
                return False
            host.at += 1
            return True
        self._post(host, step)
        return True

    def _post(self, host: Host, step: Post) -> None:
        request = Request(
            rank=host.rank,
            kind=step.kind,
            group=step.group,
            members=step.members,
            peer=step.peer,
            tag=step.tag,
            size=step.size,
            root=step.root,
            batch=step.batch,
            payload=step.what,
        )
        host.posts.append(request)
        if step.batch is not None:
            self._batches.setdefault((host.rank, step.batch), []).append(request)
        host.in_call = request
        self.queues.post(request)
        self._return_from_call(host)

    def _return_from_call(self, host: Host) -> bool:
        step = host.script[host.at]
        assert isinstance(step, Post)
        if host.in_call is not None and not host.in_call.admitted and step.holds:
            return False
        host.in_call = None
        host.at += 1
        if step.closes:
            self.queues.close_batch(host.rank)
        return True
