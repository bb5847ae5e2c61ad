"""Sends and receives in rounds: an order that no backend's rules can turn into a hang.

The plan is run on a clock that all ranks share. In each round every rank does the next action of
its row for which the data is there; then both ends of every message that was made go to the end
of their rows. So each rank meets its messages in the order of the rounds, and no two ranks meet
theirs in opposite orders. What stands between two compute actions is posted as one batch, so that
its parts do not wait for each other: by induction over the rounds every batch is completed,
whether or not sends are buffered, and with a single queue for all that a rank communicates.
"""

from collections import defaultdict, deque
from collections.abc import Iterable

from pipeline.actions import Action
from pipeline.dependencies import Result, results
from pipeline.plan import Plan


def with_exchanges(plan: Plan) -> tuple[tuple[Action, ...], ...]:
    """Return the rows of a compute-only plan with its sends and receives.

    Of a plan that cannot go on (it is invalid), the rest has each receive right before its use.
    """
    return _Rounds(plan).run()


class _Rounds:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._out: list[list[Action]] = [[] for _ in range(plan.world)]
        self._next = [0] * plan.world
        self._done: set[Result] = set()
        # Each receive as it is to be inserted, one for each time that its message is used.
        self._wanted: defaultdict[Action, deque[Action]] = defaultdict(deque)
        for row in plan.rows:
            for action in row:
                for receive in plan.receives_for(action):
                    self._wanted[receive].append(receive)

    def run(self) -> tuple[tuple[Action, ...], ...]:
        while ready := self._ready():
            for rank, action in ready:
                self._next[rank] += 1
                self._out[rank].append(action)
                self._done.update(results(action))
            self._exchange(action for _, action in ready)
        for rank in range(self._plan.world):
            self._finish(rank)
        return tuple(map(tuple, self._out))

    def _ready(self) -> list[tuple[int, Action]]:
        """Return what the ranks can do in this round."""
        found = []
        for rank, row in enumerate(self._plan.rows):
            if self._next[rank] < len(row):
                action = row[self._next[rank]]
                if all(need in self._done for need in self._plan.needs(action)):
                    found.append((rank, action))
        return found

    def _exchange(self, done: Iterable[Action]) -> None:
        """Put both ends of what was made in a round behind it, in one order on all ranks."""
        for action in done:
            for send in self._plan.sends_of(action):
                self._out[self._plan.rank_of(send.stage)].append(send)
                if wanted := self._wanted[send.other_end]:
                    receive = wanted.popleft()
                    self._out[self._plan.rank_of(receive.stage)].append(receive)

    def _finish(self, rank: int) -> None:
        for action in self._plan.rows[rank][self._next[rank] :]:
            for receive in self._plan.receives_for(action):
                if wanted := self._wanted[receive]:
                    self._out[rank].append(wanted.popleft())
            self._out[rank] += [action, *self._plan.sends_of(action)]
