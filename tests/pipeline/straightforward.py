"""What the plan engine answers, action by action and as the rules are said: the tests' oracle."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pipeline.actions import Action, Kind
from pipeline.dependencies import Result, result, results
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
    """List the root causes: later checks run only on what passes the earlier ones.

    A missing action would show again as a missing send and as a rank that never gets on.
    """
    for check in (_misplaced, _incomplete, _unmatched, _before_cause, _never_runs):
        if problems := list(check(plan)):
            return problems
    return []


def _misplaced(plan: Plan) -> Iterator[Problem]:
    """Actions out of range, or on the wrong rank."""
    for rank, row in enumerate(plan.rows):
        for action in _parts(row):
            if not 0 <= action.stage < plan.stages:
                yield Problem(rank, action, f"is out of range: stages are 0..{plan.stages - 1}")
            elif not 0 <= action.microbatch < plan.chunks:
                allowed = f"0..{plan.chunks - 1}"
                yield Problem(rank, action, f"is out of range: microbatches are {allowed}")
            elif (owner := plan.placement[action.stage]) != rank:
                reason = f"is on the wrong rank: stage {action.stage} is on rank {owner}"
                yield Problem(rank, action, reason)
            elif action.microbatch not in (own := plan.microbatches(action.stage)):
                reason = f"goes the other way: stage {action.stage} does {own[0]}..{own[-1]}"
                yield Problem(rank, action, reason)


def _parts(row: Sequence[Action]) -> Iterator[Action]:
    """Give the actions of a row, an overlapped pair as its two."""
    for action in row:
        yield from action.parts


def _incomplete(plan: Plan) -> Iterator[Problem]:
    """Actions given twice, and work that no action does."""
    seen: dict[Action, Action] = {}  # each as it stands in the plan, with its origin
    for rank, row in enumerate(plan.rows):
        for action in _parts(row):
            if action in seen:
                yield Problem(rank, action, "appears twice")
            seen.setdefault(action, action)
    for stage, rank in enumerate(plan.placement):
        for microbatch in plan.microbatches(stage):
            forward, full, of_input, of_weights = (
                Action(stage, kind, microbatch) for kind in (Kind.F, Kind.B, Kind.I, Kind.W)
            )
            split = [seen[half] for half in (of_input, of_weights) if half in seen]
            backwards = [seen[full]] if full in seen else split
            if forward not in seen:
                yield _absent(rank, forward, backwards)
            if plan.forward_only:
                yield from (Problem(rank, back, "is in a forward-only plan") for back in backwards)
            elif full in seen and split:
                yield Problem(rank, split[0], f"is done already by {full}")
            elif not backwards:
                yield _absent(rank, full, [seen[forward]] if forward in seen else [])
            elif full not in seen and len(split) == 1:
                other = of_weights if split[0] == of_input else of_input
                yield _absent(rank, other, split, f"is missing: {split[0]} is half of a backward")


def _absent(
    rank: int, action: Action, beside: Sequence[Action], reason: str = "is missing"
) -> Problem:
    """Make a problem of an action that is nowhere: it is told at the line of one it belongs to."""
    origin = beside[0].origin if beside else None
    return Problem(rank, replace(action, origin=origin), reason)


def _unmatched(plan: Plan) -> Iterator[Problem]:
    """In a lowered plan: messages with one end, and work whose data no message brings."""
    if not plan.is_lowered:
        return
    present = {action for row in plan.rows for action in _parts(row)}
    for rank, row in enumerate(plan.rows):
        for action in row:
            if action.kind.is_comm:
                other = action.other_end
                end = "receive" if action.kind.is_send else "send"
                if other not in present:
                    yield Problem(rank, action, f"has no {end}: {other} is missing")
                elif plan.placement[other.stage] == rank:
                    yield Problem(rank, action, f"sends to its own rank: {other} is there too")
                continue
            for receive in plan.receives_for(action):
                if receive not in present:
                    yield Problem(rank, action, f"needs {receive}, which is missing")


def _before_cause(plan: Plan) -> Iterator[Problem]:
    """Actions that come before what they need in their own row."""
    for rank, row in enumerate(plan.rows):
        done: set[Result] = set()
        there_is = {part for action in row for part in action.parts}
        for action in row:
            own = [need for need in plan.needs(action) if plan.placement[need[0]] == rank]
            if plan.is_lowered:
                own += [result(receive) for receive in plan.receives_for(action)]
            for missing in own:
                if missing not in done:
                    needed = Action(*missing)
                    of_input = Action(needed.stage, Kind.I, needed.microbatch)
                    if needed.kind is Kind.B and of_input in there_is:
                        needed = of_input
                    yield Problem(rank, action, f"comes before {needed}, which it needs")
            done.update(results(action))


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
