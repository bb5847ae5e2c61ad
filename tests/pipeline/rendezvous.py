"""A tiny model of gloo's sends over lowered plans: a send ends when its receive is posted."""

from collections import defaultdict
from collections.abc import Iterator

from pipeline.actions import Action, Kind
from pipeline.lower import Policy, batches
from pipeline.plan import Plan

Channel = tuple[int, int]
"""(source, destination): all that two ranks exchange in one direction goes in one queue."""


class DeadlockError(Exception):
    """Nothing can move; `stuck` is what each unfinished rank is blocked on."""

    def __init__(self, stuck: dict[int, Action]) -> None:
        super().__init__({rank: str(action) for rank, action in stuck.items()})
        self.stuck = stuck


def run(plan: Plan, policy: Policy, *, buffered: bool = False) -> None:
    """Run a lowered plan to its end; DeadlockError if it hangs, AssertionError if messages swap.

    Buffered sends are done at once.
    """
    sent: defaultdict[Channel, list[Action]] = defaultdict(list)
    posted: defaultdict[Channel, list[Action]] = defaultdict(list)

    def channel(action: Action) -> Channel:
        here, there = plan.rank_of(action.stage), plan.rank_of(action.other_end.stage)
        return (here, there) if action.kind.is_send else (there, here)

    def matched(action: Action) -> bool:
        queues = (sent, posted) if action.kind.is_send else (posted, sent)
        mine, theirs = (queue[channel(action)] for queue in queues)
        place = mine.index(action)
        if place < len(theirs):
            assert theirs[place] == action.other_end, f"{action} met {theirs[place]}"
        return place < len(theirs) or (buffered and action.kind.is_send)

    def rank_program(row: tuple[Action, ...]) -> Iterator[Action]:
        """Yield each operation that has to be matched before the rank goes on."""
        pending: list[Action] = []
        for actions in batches(row, policy):
            action = actions[0]
            if action.kind.is_comm and policy.batched:
                for each in actions:
                    (sent if each.kind.is_send else posted)[channel(each)].append(each)
                yield from actions
                continue
            if action.kind.is_comm:
                (sent if action.kind.is_send else posted)[channel(action)].append(action)
                if action.kind in policy.asynchronous:
                    pending.append(action)
                else:
                    yield action
                continue
            used = {Kind.F: Kind.RECV_F, Kind.B: Kind.RECV_B, Kind.I: Kind.RECV_B}
            waited = []
            for part in action.parts:
                waited.append(Action(part.stage, used.get(part.kind, Kind.W), part.microbatch))
                if part.kind in (Kind.B, Kind.I):
                    waited.append(Action(part.stage, Kind.SEND_F, part.microbatch))
            for operation in waited:
                if operation in pending:
                    pending.remove(operation)
                    yield operation
        yield from pending

    programs = {rank: rank_program(row) for rank, row in enumerate(plan.rows)}
    blocked: dict[int, Action] = {}
    for rank in list(programs):
        _advance(programs, blocked, rank)
    while programs:
        free = [rank for rank, action in blocked.items() if matched(action)]
        if not free:
            raise DeadlockError(blocked)
        for rank in free:
            _advance(programs, blocked, rank)


def _advance(programs: dict[int, Iterator[Action]], blocked: dict[int, Action], rank: int) -> None:
    blocked.pop(rank, None)
    try:
        blocked[rank] = next(programs[rank])
    except StopIteration:
        del programs[rank]
