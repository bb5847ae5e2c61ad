"""What the executor posts and waits for when it runs a lowered plan: scripts without a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.hazards.explain import GROUP
from harness.hazards.scripts import Await, Post, Script
from pipeline.actions import Action, Kind
from pipeline.lower import Policy, batches, get_policy
from pipeline.plan import Plan


def plan_scripts(plan: Plan, policy: Policy | str, size: int = 4) -> list[Script]:
    """Return what each rank posts and waits for in one step of a lowered plan.

    As :func:`pipeline.executor.run_step` does it, all in one group, each message ``size`` bytes.
    """
    policy = get_policy(policy)
    return [_Row(plan, rank, policy, size).script() for rank in range(plan.world)]


class _Row:
    def __init__(self, plan: Plan, rank: int, policy: Policy, size: int) -> None:
        self._plan, self._rank, self._policy, self._size = plan, rank, policy, size
        self._members = tuple(range(plan.world))
        self._posted = 0
        self._pending: dict[Action, int] = {}

    def script(self) -> Script:
        steps: Script = []
        for actions in batches(self._plan.rows[self._rank], self._policy):
            if not actions[0].kind.is_comm:
                steps += self._compute(actions[0])
            elif self._policy.batched:
                steps += self._batch(actions)
            else:
                steps += self._single(actions[0])
        steps += [Await(self._pending[action]) for action in self._pending]
        return steps

    def _batch(self, actions: Sequence[Action]) -> Iterator[Post | Await]:
        first = self._posted
        for action in actions:
            yield self._post(action, batch=first, closes=action is actions[-1])
        for number in range(first, self._posted):
            yield Await(number)

    def _single(self, action: Action) -> Iterator[Post | Await]:
        number = self._posted
        yield self._post(action)
        if action.kind in self._policy.asynchronous:
            self._pending[action] = number
        else:
            yield Await(number)

    def _compute(self, action: Action) -> Iterator[Await]:
        needed = self._plan.receives_for(action)
        for part in action.parts:
            if part.kind in (Kind.B, Kind.I):
                needed.append(Action(part.stage, Kind.SEND_F, part.microbatch))
        for comm in needed:
            if comm in self._pending:
                yield Await(self._pending.pop(comm))

    def _post(self, action: Action, *, batch: int | None = None, closes: bool = False) -> Post:
        self._posted += 1
        return Post(
            what=action,
            kind="send" if action.kind.is_send else "recv",
            group=GROUP,
            members=self._members,
            peer=self._plan.rank_of(action.other_end.stage),
            size=self._size,
            batch=batch,
            closes=closes,
        )
