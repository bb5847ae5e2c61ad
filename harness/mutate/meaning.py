"""What a plan computes, told from its rows alone: a model of its own, beside all checkers.

The rows are run on symbols. A message carries what its sender had at hand, is taken by the
receive that is posted next on that edge, whatever that one was meant for, and a send completes
when its receive is posted. B is I and W at once; I leaves to W what it takes to add to the
gradient. The parts of an overlapped pair start together: neither has the other's result. Between
two stages of one rank no message goes.

Two plans mean the same when every slice of the model adds up the same contributions to its
gradients, from the same losses, and nothing is left over on any edge. In which order it adds them
up is the plan's choice, and the monolith's follows it. Of two directions both stages that are
copies of a slice contribute, as their gradients are summed at the end of the step.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from pipeline.actions import Action, Kind
from pipeline.lower import Policy, batches
from pipeline.plan import Plan

Symbol = tuple[object, ...]
Edge = tuple[int, int]  # from rank, to rank


@dataclass(slots=True)
class Meaning:
    """What a plan comes to. ``ends`` is why it comes to nothing, where it does."""

    gradients: Counter[Symbol] = field(default_factory=Counter)
    losses: Counter[Symbol] = field(default_factory=Counter)
    ends: str = ""
    peaks: tuple[int, ...] = ()

    def same(self, other: Meaning) -> bool:
        """Whether both come to an end, with the same contributions."""
        return (
            not self.ends
            and not other.ends
            and self.gradients == other.gradients
            and self.losses == other.losses
        )


class _WrongError(Exception):
    """A rank cannot do what its row says."""


@dataclass(slots=True, eq=False)
class _Post:
    """One end of a message that has been posted; ``symbol`` is what it brings."""

    met: bool = False
    symbol: Symbol = ()


class _Network:
    """Matches sends and receives on each edge in the order in which they are posted."""

    def __init__(self) -> None:
        self._sends: defaultdict[Edge, deque[_Post]] = defaultdict(deque)
        self._receives: defaultdict[Edge, deque[_Post]] = defaultdict(deque)

    def post(self, edge: Edge, post: _Post, *, is_send: bool) -> None:
        mine, theirs = self._sends[edge], self._receives[edge]
        if not is_send:
            mine, theirs = theirs, mine
        if not theirs:
            mine.append(post)
            return
        other = theirs.popleft()
        send, receive = (post, other) if is_send else (other, post)
        receive.symbol = send.symbol
        send.met = receive.met = True

    @property
    def left(self) -> bool:
        """Whether anything was posted that met nothing."""
        return any([*self._sends.values(), *self._receives.values()])


def meaning_of(plan: Plan, policy: Policy) -> Meaning:
    """Run a lowered plan on symbols, under a comm policy."""
    network = _Network()
    found = Meaning()
    ranks = [_Rank(plan, rank, policy, network, found) for rank in range(plan.world)]
    running = {rank.rank: rank.run() for rank in ranks}
    waiting: dict[int, list[_Post]] = {rank: [] for rank in running}
    try:
        while running:
            able = [r for r in running if all(post.met for post in waiting[r])]
            if not able:
                found.ends = f"ranks {sorted(running)} wait for ever"
                return found
            for rank in able:
                try:
                    waiting[rank] = next(running[rank])
                except StopIteration:
                    del running[rank]
    except _WrongError as error:
        found.ends = str(error)
        return found
    if network.left:
        found.ends = "a message is left over"
    found.peaks = tuple(rank.peak for rank in ranks)
    return found


class _Rank:
    """Runs one row; yields what it waits for."""

    def __init__(
        self, plan: Plan, rank: int, policy: Policy, network: _Network, found: Meaning
    ) -> None:
        self._plan, self.rank, self._policy = plan, rank, policy
        self._depth = plan.stages // plan.directions
        self._network, self._found = network, found
        self._made: dict[Action, Symbol] = {}  # by the send that takes it away, or local use
        self._came: dict[Action, _Post] = {}
        self._sent: dict[Action, _Post] = {}
        self._saved: dict[tuple[int, int], Symbol] = {}
        self._halves: dict[tuple[int, int], Symbol] = {}
        self.peak = 0

    def run(self) -> Iterator[list[_Post]]:
        for actions in batches(self._plan.rows[self.rank], self._policy):
            if not actions[0].kind.is_comm:
                yield from self._compute(actions[0])
                continue
            posts = [(action, self._post(action)) for action in actions]
            if self._policy.batched:
                yield [post for _, post in posts]
            elif actions[0].kind not in self._policy.asynchronous:
                yield [posts[0][1]]
        yield list(self._sent.values())

    def _post(self, action: Action) -> _Post:
        owner = self._owner(action.stage)
        other = self._owner(action.other_end.stage)
        if owner != self.rank or other == self.rank:
            raise _WrongError(f"{action} is not for rank {self.rank}")
        post = _Post()
        if action.kind.is_send:
            if action not in self._made:
                raise _WrongError(f"{action} has nothing to send")
            post.symbol = self._made.pop(action)
            self._sent[action] = post
            self._network.post((self.rank, other), post, is_send=True)
        else:
            self._came[action] = post
            self._network.post((other, self.rank), post, is_send=False)
        return post

    def _owner(self, stage: int) -> int:
        if not 0 <= stage < self._plan.stages:
            raise _WrongError(f"there is no stage {stage}")
        return self._plan.placement[stage]

    def _slice(self, stage: int) -> int:
        """Return which slice of the model a stage is: of two directions each has it once."""
        return stage % self._depth

    def _neighbour(self, stage: int, distance: int) -> int | None:
        """Return the stage before (-1) or after (+1) one, None at the ends of the pipeline."""
        inside = 0 <= self._slice(stage) + distance < self._depth
        return stage + distance if inside else None

    def _compute(self, action: Action) -> Iterator[list[_Post]]:
        for part in action.parts:
            if self._owner(part.stage) != self.rank or not 0 <= part.microbatch < self._plan.chunks:
                raise _WrongError(f"{part} is not for rank {self.rank}")
        given = []
        for part in action.parts:
            given.append((yield from self._given(part)))
        for part in action.parts:
            self._require_turn(part)
        for part, symbol in zip(action.parts, given, strict=True):
            self._do(part, symbol)

    def _given(self, part: Action) -> Generator[list[_Post], None, Symbol]:
        """Return what comes to an action from its neighbour."""
        if part.kind is Kind.F:
            return (yield from self._input(part, Kind.RECV_F, -1, ("input", part.microbatch)))
        if part.kind in (Kind.B, Kind.I):
            return (yield from self._input(part, Kind.RECV_B, +1, ("loss",)))
        return ()

    def _require_turn(self, part: Action) -> None:
        """Make sure that what an action goes on from, on its own stage, is there."""
        key = part.stage, part.microbatch
        if part.kind is Kind.F and key in self._saved:
            raise _WrongError(f"{part} twice")
        if part.kind in (Kind.B, Kind.I) and key not in self._saved:
            raise _WrongError(f"{part} before its forward")
        if part.kind is Kind.W and key not in self._halves:
            raise _WrongError(f"{part} before its I")

    def _do(self, part: Action, given: Symbol) -> None:
        key = stage, microbatch = part.stage, part.microbatch
        number, is_last = self._slice(stage), self._neighbour(stage, +1) is None
        if part.kind is Kind.F:
            made: Symbol = ("F", number, given, *([microbatch] if is_last else []))
            self._saved[key] = made
            self.peak = max(self.peak, len(self._saved) + len(self._halves))
            self._give(part, Kind.SEND_F, +1, made)
        elif part.kind is Kind.W:
            self._found.gradients[self._halves.pop(key)] += 1
        else:
            output = self._saved.pop(key)
            contribution: Symbol = ("G", number, output, given)
            if is_last:
                self._found.losses[output] += 1
            if part.kind is Kind.B:
                self._found.gradients[contribution] += 1
            else:
                self._halves[key] = contribution
            self._give(part, Kind.SEND_B, -1, ("dX", contribution))

    def _input(
        self, action: Action, kind: Kind, distance: int, own: Symbol
    ) -> Generator[list[_Post], None, Symbol]:
        """Return what an action works on; at the ends of the pipeline that is ``own``."""
        source = self._neighbour(action.stage, distance)
        if source is None:
            return own
        receive = Action(action.stage, kind, action.microbatch)
        if self._plan.placement[source] == self.rank:
            send = Kind.SEND_F if kind is Kind.RECV_F else Kind.SEND_B
            local = Action(source, send, action.microbatch)
            if local not in self._made:
                raise _WrongError(f"{action} before what it needs")
            return self._made.pop(local)
        if receive not in self._came:
            raise _WrongError(f"{action} without {receive}")
        post = self._came.pop(receive)
        waits = [post]
        sent = self._sent.get(Action(action.stage, Kind.SEND_F, action.microbatch))
        if kind is Kind.RECV_B and sent is not None:
            waits.append(sent)
        yield waits
        return post.symbol

    def _give(self, action: Action, send: Kind, distance: int, made: Symbol) -> None:
        if self._neighbour(action.stage, distance) is not None:
            self._made[Action(action.stage, send, action.microbatch)] = made
