"""Small random programs, and what happens in them where every send waits for its receive.

This is the reference that the proof of deadlock is held against. It shares no code with the
matcher: operations are queued and paired the moment they are posted, and a rank goes on when what
it waits for has been paired.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hypothesis import strategies as st

from harness.checkers.deadlock import find_stuck
from harness.decode import Decoder
from tests.checkers.builder import Story


@dataclass(frozen=True)
class Step:
    """One line of a rank's program; ``name`` ties a wait or a drop to its request."""

    do: str  # send recv isend irecv wait drop barrier raises dies
    peer: int | None = None
    tag: int = 0
    group: str = "0"
    name: int = 0

    def __repr__(self) -> str:
        shown = {"tag": self.tag, "group": self.group, "name": self.name}
        words = [f"{key}={value}" for key, value in shown.items() if value not in (0, "0")]
        peer = [] if self.do in ("wait", "drop", "barrier") else [str(self.peer)]
        return f"{self.do}({', '.join(peer + words)})"


@dataclass(frozen=True)
class Programs:
    """What each rank runs, and the members of each group."""

    steps: tuple[tuple[Step, ...], ...]
    groups: dict[str, tuple[int, ...]]

    @property
    def world(self) -> int:
        return len(self.steps)


@st.composite
def programs(draw: st.DrawFn, *, any_source: bool = False) -> Programs:
    """Mostly right programs: messages with both their ends, barriers of whole groups; then
    neighbours change places, ends get lost, requests are dropped and ranks fail.
    """
    world = draw(st.integers(2, 4))
    pair = tuple(sorted(draw(st.permutations(range(world)))[:2]))
    groups = {"0": tuple(range(world)), "pair": pair}
    steps: list[list[Step]] = [[] for _ in range(world)]
    for name in range(1, draw(st.integers(1, 9)) + 1):
        group = draw(st.sampled_from(["0", "0", "0", "pair"]))
        members = groups[group]
        if draw(st.integers(0, 4)) == 0:
            for rank in members:
                steps[rank].append(Step("barrier", group=group))
        else:
            source, target = draw(st.permutations(members))[:2]
            tag = draw(st.integers(0, 1))
            start = draw(st.sampled_from(["", "i"]))
            steps[source].append(Step(f"{start}send", target, tag, group, name))
            wild = any_source and draw(st.booleans())
            start = draw(st.sampled_from(["", "i"]))
            peer = None if wild else source
            steps[target].append(Step(f"{start}recv", peer, tag, group, name))
    return Programs(tuple(tuple(_spoiled(draw, rank)) for rank in steps), groups)


def _spoiled(draw: st.DrawFn, steps: list[Step]) -> list[Step]:
    for at in draw(st.lists(st.integers(0, max(len(steps) - 2, 0)), max_size=3)):
        steps[at : at + 2] = reversed(steps[at : at + 2])
    if steps and draw(st.integers(0, 3)) == 0:
        del steps[draw(st.integers(0, len(steps) - 1))]
    for name in [step.name for step in steps if step.do in ("isend", "irecv")]:
        fate = draw(st.sampled_from(["wait", "wait", "wait", "drop", ""]))
        if fate:
            posted = next(at for at, step in enumerate(steps) if step.name == name)
            steps.insert(draw(st.integers(posted + 1, len(steps))), Step(fate, name=name))
    if draw(st.integers(0, 9)) == 0:
        end = Step(draw(st.sampled_from(["raises", "dies"])))
        steps.insert(draw(st.integers(0, len(steps))), end)
    return steps


@dataclass(eq=False)
class Request:
    """One operation as the reference knows it."""

    op: int
    rank: int
    step: Step
    paired: bool = False
    source: int | None = None
    partner: Request | None = None


@dataclass
class Place:
    """Where a rank is."""

    at: int = 0
    blocked: Request | None = None
    requests: dict[int, Request] = field(default_factory=dict)
    ended: bool = False


class Run:
    """One run of the programs, told as a story while it goes on."""

    def __init__(self, programs: Programs, choices: random.Random) -> None:
        self.programs = programs
        self.story = Story(programs.world, programs.groups)
        self.places = [Place() for _ in range(programs.world)]
        self._choices = choices
        self._open: list[Request] = []  # sends and receives not yet paired, by post order
        self._receives: list[Request] = []
        self._barriers: dict[tuple[str, int], list[Request]] = {}
        self._counts: dict[tuple[int, str], int] = {}

    def pairs(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Which receive, by its rank and number, took the message of which send."""
        return {
            (one.rank, one.op): (one.partner.rank, one.partner.op)
            for one in self._receives
            if one.partner is not None
        }

    def movable(self) -> list[int]:
        """The ranks that can take a step."""
        return [
            rank
            for rank, place in enumerate(self.places)
            if not place.ended and (place.blocked is None or place.blocked.paired)
        ]

    def progress(self) -> list[tuple[int, bool]]:
        """How far each rank has come."""
        return [(place.at, place.ended) for place in self.places]

    def move(self, rank: int) -> None:
        """Let a rank take its next step, or come back from the wait that it is in."""
        place, teller = self.places[rank], self.story[rank]
        if place.blocked is not None:
            teller.back(place.blocked.source)
            place.blocked, place.at = None, place.at + 1
        elif place.at == len(self.programs.steps[rank]):
            place.ended = True
            teller.finishes()
        else:
            self._do(rank, place, self.programs.steps[rank][place.at])

    def _do(self, rank: int, place: Place, step: Step) -> None:
        teller = self.story[rank]
        request = place.requests.get(step.name)
        match step.do:
            case "raises" | "dies":
                place.ended = True
                getattr(teller, step.do)()
                return
            case "barrier":
                place.blocked = Request(teller.barrier(group=step.group), rank, step)
                self._come(place.blocked)
                return
            case "wait" if request is not None:
                place.blocked = request
                teller.wait(request.op)
                return
            case "drop" if request is not None:
                teller.drops(request.op)
                if request in self._open:
                    self._open.remove(request)
            case "send" | "recv" | "isend" | "irecv":
                post = getattr(teller, step.do)
                op = post(step.peer, tag=step.tag, group=step.group)
                request = place.requests[step.name] = Request(op, rank, step)
                if step.do.endswith("recv"):
                    self._receives.append(request)
                self._pair(request)
                if step.do in ("send", "recv"):
                    place.blocked = request
                    return
        place.at += 1

    def _come(self, request: Request) -> None:
        group = request.step.group
        number = self._counts.get((request.rank, group), 0)
        self._counts[request.rank, group] = number + 1
        met = self._barriers.setdefault((group, number), [])
        met.append(request)
        if len(met) == len(self.programs.groups[group]):
            for each in met:
                each.paired = True

    def _pair(self, request: Request) -> None:
        """Meet the oldest open counterpart, or the oldest of a chosen kind.

        One from any source takes what any of the sources has sent. A message goes to a receive
        posted for its source rather than to a later one from any source; to which of the two when
        the other was posted first, depends on how long it was under way: then either may have it.
        """
        fitting: dict[tuple[int, bool], Request] = {}
        for other in self._open:
            wild = other.step.peer is None
            if _fit(request, other) and not (wild and (other.rank, False) in fitting):
                fitting.setdefault((other.rank, wild), other)
        if not fitting:
            self._open.append(request)
            return
        other = self._choices.choice(list(fitting.values()))
        self._open.remove(other)
        for one, two in ((request, other), (other, request)):
            one.paired, one.partner = True, two
            if one.step.peer is None:
                members = self.programs.groups[one.step.group]
                one.source = members.index(two.rank)


def _fit(one: Request, two: Request) -> bool:
    send, receive = (one, two) if one.step.do.endswith("send") else (two, one)
    return (
        send.step.do.endswith("send")
        and receive.step.do.endswith("recv")
        and (send.step.tag, send.step.group) == (receive.step.tag, receive.step.group)
        and send.step.peer == receive.rank
        and receive.step.peer in (None, send.rank)
    )


class Watcher:
    """Reads a run's events as they come, and keeps what it concluded and how far ranks were."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._decoder = Decoder(run.programs.world)
        self._read = [0] * run.programs.world
        self.claims: list[tuple[int, tuple[int, bool]]] = []  # rank, its progress when read
        self.met: list[tuple[tuple[int, int], tuple[int, int]]] = []  # a receive and its send

    def look(self, choices: random.Random, *, torn: bool = False) -> set[int]:
        """Read all ranks and return those that are stuck.

        When ``torn``, the ranks go on while they are being read, as real ones do.
        """
        seen = {}
        ranks = list(range(self._run.programs.world))
        choices.shuffle(ranks)
        for rank in ranks:
            self._decoder.feed(self._new(rank))
            seen[rank] = self._run.progress()[rank]
            if rank in self._run.story.statuses:
                history = self._decoder.trace.ranks[rank]
                history.status = self._run.story.statuses[rank][0]
            for _ in range(choices.randint(0, 3) if torn else 0):
                if movable := self._run.movable():
                    self._run.move(choices.choice(movable))
        stuck = set(find_stuck(self._decoder.trace))
        self.claims += [(rank, seen[rank]) for rank in stuck]
        self.met += [
            ((op.rank, op.id), (op.match.rank, op.match.id))
            for op in self._decoder.trace.operations()
            if op.kind == "recv" and op.match is not None and not op.doubtful
        ]
        return stuck

    def _new(self, rank: int) -> Iterable[tuple[int, tuple[object, ...]]]:
        own = [item for item in self._run.story.events if item[0] == rank]
        new, self._read[rank] = own[self._read[rank] :], len(own)
        return new


def moves(run: Run, choices: random.Random) -> Iterator[int]:
    """Let one rank after the other move until none can."""
    while movable := run.movable():
        rank = choices.choice(movable)
        run.move(rank)
        yield rank
