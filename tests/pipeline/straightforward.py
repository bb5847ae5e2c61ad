"""What the plan engine answers, action by action and as the rules are said: the tests' oracle."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from pipeline import problems
from pipeline.actions import Action, Kind
from pipeline.dependencies import Result, results
from pipeline.plan import Plan, Problem


def run_order(
    rows: Sequence[Sequence[Action]], needs_of: Callable[[Action], Iterable[Result]]
) -> tuple[list[tuple[int, Action]], dict[int, tuple[Action, Result]]]:
    """Run all rows as far as they go, each in its order, in time linear in their length.

    Returns the (rank, action) pairs in an order that honours every need, and for each rank that
    got stuck the action it stopped at with a result that never came.
    """
    order: list[tuple[int, Action]] = []
    done: set[Result] = set()
    position = [0] * len(rows)
    waiting: dict[Result, list[int]] = {}
    stuck: dict[int, tuple[Action, Result]] = {}
    ready = list(reversed(range(len(rows))))
    while ready:
        rank = ready.pop()
        stuck.pop(rank, None)
        while position[rank] < len(rows[rank]):
            action = rows[rank][position[rank]]
            missing = next((need for need in needs_of(action) if need not in done), None)
            if missing is not None:
                waiting.setdefault(missing, []).append(rank)
                stuck[rank] = action, missing
                break
            order.append((rank, action))
            position[rank] += 1
            for made in results(action):
                done.add(made)
                ready.extend(waiting.pop(made, ()))
    return order, stuck


def find_problems(plan: Plan) -> list[Problem]:
    """List the root causes: every row is gone through, whatever its numbers say."""
    every = range(plan.world)
    for check in (problems.misplaced, problems.incomplete, problems.unmatched):
        if found := list(check(plan, every)):
            return found
    return list(problems.before_cause(plan, every)) or list(_never_runs(plan))


def _never_runs(plan: Plan) -> Iterator[Problem]:
    """Ranks that wait for each other whatever the comm policy: every row alone is in order."""
    _, stuck = run_order(plan.rows, plan.needs)
    for rank, (action, missing) in sorted(stuck.items()):
        owner = plan.placement[missing[0]]
        blocker = stuck[owner][0]
        reason = f"waits for {Action(*missing)}, and rank {owner} cannot get past {blocker}"
        yield Problem(rank, action, reason)


def starts_of(plan: Plan, costs: Mapping[Kind, float]) -> list[list[float]]:
    """When each action starts, as far as the plan goes."""
    ends: dict[Result, float] = {}
    free = [0.0] * plan.world
    starts: list[list[float]] = [[] for _ in plan.rows]
    for rank, action in run_order(plan.rows, plan.needs)[0]:
        start = max([free[rank], *(ends[need] for need in plan.needs(action))])
        free[rank] = start + costs[action.kind]
        for made in results(action):
            ends.setdefault(made, free[rank])
        starts[rank].append(start)
    return starts


def peak_in_flight(plan: Plan) -> tuple[int, ...]:
    change = {Kind.F: +1, Kind.B: -1, Kind.W: -1}
    peaks = []
    for row in plan.rows:
        now = peak = 0
        for action in row:
            for part in action.parts:
                now += change.get(part.kind, 0)
                peak = max(peak, now)
        peaks.append(peak)
    return tuple(peaks)


def with_exchanges(plan: Plan) -> tuple[tuple[Action, ...], ...]:
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
