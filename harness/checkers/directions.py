"""A wrong gradient of two directions: which of them is wrong, and on which rank.

After the step both ranks that hold a slice of the model have the sum of what each of them did, so a
fault of one direction shows on both. Whose it is the coefficients tell: each microbatch is one
direction's alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.checkers import sites
from harness.checkers.own_gradients import TIED
from harness.findings import Operation
from harness.parity import advice
from harness.parity.causes import Claim, number
from harness.parity.diagnose import diagnose
from harness.parity.oracle import Difference
from harness.parity.results import StageResult
from harness.worlds import Outcome

SAME = 1e-4
"""How far a coefficient may be from another number and still be that one."""

_SUM = (
    "sum each slice's gradients over the two ranks that hold it, once, after the last backward "
    "and before the step returns"
)


@dataclass(frozen=True, slots=True)
class Blame:
    """What is said of a wrong gradient of two directions."""

    claim: Claim
    stages: tuple[StageResult, ...]  # where to look, one slice of the model
    ranks: tuple[int, ...]
    operations: tuple[Operation, ...]
    seen: str
    advised: str
    above: tuple[StageResult, ...] = ()  # the next slice, where its gradient is right


def blame(difference: Difference, outcome: Outcome, chunks: int, batch: int) -> Blame:
    """Find the direction in which the gradient went wrong; both where that is not shown."""
    differing = (difference, *difference.others)
    ranks = tuple(sorted({one.chain[at].rank for one in differing for at in one.stages}))
    found = [(one, *diagnose(one)) for one in differing]
    place = max(at for _, _, at in found)
    claim = next(claim for _, claim, at in found if at == place)
    chains = difference.chains
    copies = tuple(chain[place] for chain in chains)
    above = tuple(chain[place + 1] for chain in chains if place + 1 < len(chain))
    shares = _shares(difference)

    def at(stages: Sequence[StageResult], microbatches: Sequence[int] = ()) -> Blame:
        operations = sites.computed(outcome, stages, "B", microbatches)
        seen = advice.seen_in(claim) or claim.note
        advised = advice.help_for(claim, chunks, batch)
        return Blame(claim, tuple(stages), ranks, operations, seen, advised, above)

    lacking = [_others_share(one, own, chains, shares) for one, own, _ in found]
    if None not in lacking:  # it was done, on the other rank
        forgot = [one.chain[own_place] for one, _, own_place in found]
        told = replace(at(sorted(forgot, key=lambda stage: stage.rank)), above=())
        partners = {s.rank: _partner(s, chains) for s in told.stages}
        pairs = [f"rank {rank} has not rank {other}'s part" for rank, other in partners.items()]
        seen = f"what the two directions add to it is not summed: {' and '.join(pairs)}"
        claim = replace(told.claim, cause=TIED)
        return replace(told, claim=claim, seen=seen, advised=_SUM)
    wrong = [k for k, c in enumerate(claim.coefficients) if abs(c - 1) > SAME]
    for direction, share in enumerate(shares):
        if wrong and set(wrong) <= set(share):
            values = [claim.coefficients[k] for k in share]
            if set(wrong) == set(share) and max(values) - min(values) < SAME and values[0] > SAME:
                claim = replace(claim, cause=f"scale:{number(values[0], SAME)}", note="")
            numbers = _numbered(difference, wrong)
            told = at([copies[direction]], numbers)
            which = f"of the direction that ends on rank {chains[direction][-1].rank}"
            return replace(told, seen=f"{told.seen} ({which})" if told.seen else which)
    return at(copies)


def _shares(difference: Difference) -> list[tuple[int, ...]]:
    step = difference.evidence
    assert step is not None
    return [tuple(sorted(order)) for order in step.orders]


def _others_share(
    one: Difference,
    claim: Claim,
    chains: Sequence[Sequence[StageResult]],
    shares: Sequence[Sequence[int]],
) -> int | None:
    """Return the other direction, where exactly its microbatches are missing on this one."""
    mine = chains.index(one.chain)
    zero = {k for k, c in enumerate(claim.coefficients) if abs(c) <= SAME}
    whole = {k for k, c in enumerate(claim.coefficients) if abs(c - 1) <= SAME}
    for other, share in enumerate(shares):
        rest = {k for k in range(len(claim.coefficients)) if k not in share}
        if other != mine and share and zero == set(share) and whole == rest:
            return other
    return None


def _partner(stage: StageResult, chains: Sequence[Sequence[StageResult]]) -> int:
    """Return the other rank that has a stage's slice."""
    copies = (chain[stage.slice] for chain in chains)
    return next(copy.rank for copy in copies if copy.number != stage.number)


def _numbered(difference: Difference, wrong: Sequence[int]) -> list[int]:
    """Translate places to microbatches, as the plan numbers them."""
    step = difference.evidence
    assert step is not None
    return [m for m, column in step.partition.column_of.items() if column in set(wrong)]
