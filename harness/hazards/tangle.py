"""Why a replay does not go on: the shortest circle of what waits for what."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from harness.hazards.replay import Replay
from harness.hazards.scripts import Await
from harness.worlds.simulated.request import Request

Node = int | Request
"""A rank's program, or a request of it."""

Why = Literal["call", "wait", "batch", "behind", "counterpart", "creation"]
"""How one node waits for the next: a program is inside the call that posts a request, inside a wait
for it, or inside a wait for its batch; a request is behind another in its queue, needs another, or
needs a rank for its communicator to be made."""


@dataclass(frozen=True, slots=True)
class Link:
    """One node that waits for another."""

    node: Node
    why: Why
    needs: Node


@dataclass(frozen=True, slots=True)
class Tangle:
    """A circle of links, or a chain that ends at a rank which finishes without what is needed."""

    links: tuple[Link, ...]
    is_circle: bool

    @property
    def nodes(self) -> tuple[Node, ...]:
        """What waits, in order; in a chain also the rank at its end."""
        nodes = tuple(link.node for link in self.links)
        return nodes if self.is_circle else (*nodes, self.links[-1].needs)

    @property
    def ranks(self) -> list[int]:
        """The ranks that take part."""
        return sorted({node if isinstance(node, int) else node.rank for node in self.nodes})

    @property
    def requests(self) -> list[Request]:
        """The requests that take part."""
        return [node for node in self.nodes if isinstance(node, Request)]


def find_tangle(replay: Replay) -> Tangle | None:
    """Return the shortest circle, or else the shortest chain to a finished rank; None: no hang."""
    links: dict[Node, list[Link]] = {}
    to_see: deque[Node] = deque(host.rank for host in replay.hosts if not host.finished)
    while to_see:
        node = to_see.popleft()
        if node not in links:
            links[node] = list(_links(replay, node))
            to_see.extend(link.needs for link in links[node])
    best: tuple[Link, ...] = ()
    for node in _leading_round(links):
        best = _shortest_round(links, node, len(best)) or best
    if best:
        return Tangle(_from_lowest_rank(best), is_circle=True)
    ends = {node for node in links if not links[node]}
    # A shortest chain is one link long: any that has an end behind it.
    last = (link for node in links for link in links[node] if link.needs in ends)
    return next((Tangle((link,), is_circle=False) for link in last), None)


def _leading_round(links: dict[Node, list[Link]]) -> list[Node]:
    """Return the nodes from which links lead to a circle: what is left if ends are taken off."""
    left = {node: len(ways) for node, ways in links.items()}
    needed_by: dict[Node, list[Node]] = {node: [] for node in links}
    for node, ways in links.items():
        for link in ways:
            needed_by[link.needs].append(node)
    ends = [node for node, count in left.items() if not count]
    while ends:
        for node in needed_by[ends.pop()]:
            left[node] -= 1
            if not left[node]:
                ends.append(node)
    return [node for node, count in left.items() if count]


def _links(replay: Replay, node: Node) -> Iterator[Link]:
    if isinstance(node, Request):
        for obstacle in replay.queues.obstacles(node):
            needs = obstacle.rank if obstacle.request is None else obstacle.request
            yield Link(node, obstacle.why, needs)
        return
    host = replay.hosts[node]
    for request in replay.blocked(node):
        if host.in_call is not None:
            yield Link(node, "call", request)
        elif request in _waited_for_here(replay, node):
            yield Link(node, "wait", request)
        else:
            yield Link(node, "batch", request)


def _waited_for_here(replay: Replay, rank: int) -> list[Request]:
    """Return what the program waits for before it does anything else."""
    host = replay.hosts[rank]
    found = []
    for step in host.script[host.at :]:
        if not isinstance(step, Await):
            break
        found.append(host.posts[step.post])
    return found


def _shortest_round(links: dict[Node, list[Link]], start: Node, below: int) -> tuple[Link, ...]:
    """Return the links of a shortest way from a node back to itself; none if there is none.

    Nor is one of ``below`` links or more returned, but for 0, which sets no limit.
    """
    came: dict[Node, Link] = {}
    to_see = deque([(start, 1)])
    while to_see:
        node, length = to_see.popleft()
        if length == below:
            break
        for link in links[node]:
            if link.needs == start:
                way = [link]
                while way[-1].node != start:
                    way.append(came[way[-1].node])
                return tuple(reversed(way))
            if link.needs not in came:
                came[link.needs] = link
                to_see.append((link.needs, length + 1))
    return ()


def _from_lowest_rank(circle: tuple[Link, ...]) -> tuple[Link, ...]:
    """Turn a circle so that it begins with a program, the lowest rank's, if one is in it."""

    def place(at: int) -> tuple[bool, int, int]:
        node = circle[at].node
        is_request = isinstance(node, Request)
        return is_request, node.rank if isinstance(node, Request) else node, at

    first = min(range(len(circle)), key=place)
    return circle[first:] + circle[:first]
