"""What the ranks of a plan would do, told as a story: the executor's order, without ranks."""

from __future__ import annotations

from harness.recorder import KINDS, REQUIRES_GRAD
from harness.trace import Trace
from pipeline.actions import Action, Kind
from pipeline.lower import POLICIES, lower
from pipeline.plan import Plan, build_plan
from tests.checkers.builder import Rank, Story


def trace_of(schedule: str, world: int, chunks: int, policy: str = "async") -> Trace:
    """The trace of one step, as ``pipeline.executor`` would run it."""
    return trace_of_plan(lower(build_plan(schedule, world, chunks), policy), policy)


def trace_of_plan(plan: Plan, policy: str = "async") -> Trace:
    story = Story(plan.world)
    asynchronous = POLICIES[policy].asynchronous
    for rank, row in enumerate(plan.rows):
        Executor(story, story[rank], plan, asynchronous).run(row)
    return story.trace()


class Executor:
    """One rank's row of a lowered plan."""

    def __init__(
        self, story: Story, teller: Rank, plan: Plan, asynchronous: frozenset[Kind]
    ) -> None:
        self._story, self._teller, self._plan = story, teller, plan
        self._asynchronous = asynchronous
        self._pending: dict[Action, int] = {}

    def run(self, row: tuple[Action, ...]) -> None:
        for action in row:
            if action.kind.is_comm:
                self._communicate(action)
                continue
            before = {Kind.F: (Kind.RECV_F,), Kind.B: (Kind.RECV_B, Kind.SEND_F)}[action.kind]
            for kind in before:
                self._wait(Action(action.stage, kind, action.microbatch))
            compute(self._story, self._teller.number, str(action))
        for action in list(self._pending):
            self._wait(action)

    def _communicate(self, action: Action) -> None:
        peer = self._plan.rank_of(action.other_end.stage)
        send = action.kind.is_send
        if action.kind in self._asynchronous:
            post = self._teller.isend if send else self._teller.irecv
            self._pending[action] = post(peer, action=str(action))
        else:
            call = self._teller.send if send else self._teller.recv
            call(peer, action=str(action))
            self._teller.back()

    def _wait(self, action: Action) -> None:
        if (op := self._pending.pop(action, None)) is not None:
            self._teller.wait(op)
            self._teller.back()


def compute(story: Story, rank: int, *texts: str) -> None:
    """Let a rank compute, by the actions' text."""
    for text in texts:
        action = Action.parse(text)
        flags = KINDS.index(action.kind.value) | REQUIRES_GRAD
        story.add(rank, "C", action.stage, action.microbatch, 0, flags=flags)
