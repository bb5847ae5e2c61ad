"""From a compute-only plan to one with sends and receives, by a comm policy."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby

from pipeline.actions import Action, Kind
from pipeline.exchanges import with_exchanges
from pipeline.plan import Plan


@dataclass(frozen=True)
class Policy:
    """Which communications return at once, and how far ahead receives are posted."""

    name: str
    asynchronous: frozenset[Kind]
    """Kinds whose call only posts. A receive is waited for right before the work that uses it."""
    lookahead: int
    """How many compute actions before its use a receive is posted."""
    doc: str
    batched: bool = False
    """Whether what comes between two compute actions is posted as one batch, and waited for."""


POLICIES = {
    policy.name: policy
    for policy in (
        Policy(
            "blocking",
            frozenset(),
            lookahead=0,
            doc="every call blocks; where two neighbours send first, as in 1F1B, both hang",
        ),
        Policy(
            "isend",
            frozenset({Kind.SEND_F}),
            lookahead=0,
            doc="activations are sent without waiting, the rest blocks: enough for 1F1B",
        ),
        Policy(
            "async",
            frozenset({Kind.SEND_F, Kind.RECV_F, Kind.SEND_B, Kind.RECV_B}),
            lookahead=2,
            doc="receives are posted ahead, and every message overlaps with compute",
        ),
        Policy(
            "batched",
            frozenset(),
            lookahead=0,
            doc="what is exchanged between two computes is one batch: safe on every backend",
            batched=True,
        ),
    )
}


DEFAULT_POLICY = "batched"
LOWERED_POLICY = "async"
"""For a plan that has sends and receives already: it need not wait for them where they stand."""


def default_policy(plan: Plan) -> str:
    """Name the policy that any valid plan can be run under."""
    return LOWERED_POLICY if plan.is_lowered else DEFAULT_POLICY


def get_policy(policy: Policy | str) -> Policy:
    """Look a policy up; ValueError lists the known names."""
    if isinstance(policy, Policy):
        return policy
    if policy not in POLICIES:
        raise ValueError(f"unknown comm policy {policy!r}; known: {', '.join(POLICIES)}")
    return POLICIES[policy]


def batches(row: Iterable[Action], policy: Policy) -> Iterator[Sequence[Action]]:
    """Cut a lowered row into what is done at once: one action, or a batch of sends and receives.

    Under a batched policy all that stands between two compute actions is one batch.
    """
    for is_comm, actions in groupby(row, lambda action: action.kind.is_comm):
        if is_comm and policy.batched:
            yield tuple(actions)
        else:
            yield from ((action,) for action in actions)


def lower(plan: Plan, policy: Policy | str = DEFAULT_POLICY) -> Plan:
    """Insert SEND_F, RECV_F, SEND_B and RECV_B where data crosses ranks.

    A send follows the action that makes its data. A receive comes before the one that uses it,
    or earlier: messages between two ranks carry no label, so that receives have to be posted in
    the order of the sends. For a batched policy see :mod:`pipeline.exchanges`. A lowered plan is
    refused with ValueError.
    """
    if plan.is_lowered:
        raise ValueError(f"{plan.schedule}: this plan has sends and receives already")
    policy = get_policy(policy)
    if policy.batched:
        rounds = with_exchanges(plan)
        shape = (plan.placement, plan.directions, plan.forward_only)
        return Plan.of_coded(plan.schedule, plan.chunks, rounds, *shape)
    rows = (_lower_row(plan, rank, policy.lookahead) for rank in range(plan.world))
    return replace(plan, rows=tuple(tuple(row) for row in rows))


def _lower_row(plan: Plan, rank: int, lookahead: int) -> Iterator[Action]:
    posts = _posts(plan, rank, lookahead)
    for step, action in enumerate(plan.rows[rank]):
        yield from posts[step]
        yield action
        yield from plan.sends_of(action)


def _posts(plan: Plan, rank: int, lookahead: int) -> defaultdict[int, list[Action]]:
    """Decide before which step of its row a rank posts each receive."""
    use: dict[Action, int] = {}
    from_rank: defaultdict[int, list[Action]] = defaultdict(list)
    for step, action in enumerate(plan.rows[rank]):
        for receive in plan.receives_for(action):
            use[receive] = step
            from_rank[plan.rank_of(receive.other_end.stage)].append(receive)
    posts: defaultdict[int, list[Action]] = defaultdict(list)
    for source, receives in sorted(from_rank.items()):
        place = {message: place for place, message in enumerate(_messages(plan, source, rank))}
        receives.sort(key=lambda receive: place.get(receive, len(place)))
        # Each is needed by its own use, and before those that have to be posted after it.
        latest = accumulate((use[receive] for receive in reversed(receives)), min)
        for receive, step in zip(receives, reversed(list(latest)), strict=True):
            posts[max(0, step - lookahead)].append(receive)
    return posts


def _messages(plan: Plan, source: int, target: int) -> Iterator[Action]:
    """Give the receives of what one rank sends to another, in the order of the sends."""
    for action in plan.rows[source]:
        for send in plan.sends_of(action):
            if plan.rank_of(send.other_end.stage) == target:
                yield send.other_end
