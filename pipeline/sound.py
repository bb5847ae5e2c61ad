"""Which rows of a plan may have something wrong, from their numbers alone.

Each answer is the ranks of such rows, and no rank whose row is right. What is wrong there is for
:mod:`pipeline.problems` to say.
"""

from collections import defaultdict
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from pipeline.coded import (
    COMMS,
    FORWARD,
    FULL,
    INPUT,
    RECV_B,
    RECV_F,
    SEND_B,
    SEND_F,
    WEIGHT,
    Row,
)
from pipeline.flow import Flow

if TYPE_CHECKING:
    from pipeline.plan import Plan


def misplaced(plan: "Plan") -> list[int]:
    """List the ranks with actions out of range, on the wrong rank, or of the other direction."""
    own = _stages(plan)
    return [
        rank
        for rank, row in enumerate(plan.coded.rows)
        if len(row) and not _is_in_place(plan, row, own[rank])
    ]


def _stages(plan: "Plan") -> defaultdict[int, list[int]]:
    """Return each rank's stages."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for stage, rank in enumerate(plan.placement):
        found[rank].append(stage)
    return found


def _is_in_place(plan: "Plan", row: Row, own: list[int]) -> bool:
    *_, least, most = row.span()
    stages = row.used_stages()
    if not stages.issubset(own) or least < 0 or most >= plan.chunks:
        return False
    if plan.directions == 1:
        return True
    does = {stage: plan.microbatches(stage) for stage in stages}
    return all(microbatch in does[stage] for _, stage, microbatch in row.parts())


def incomplete(plan: "Plan") -> list[int]:
    """List the ranks with actions given twice, or work left out, of a plan with all in place."""
    stages = _stages(plan)
    return [
        rank
        for rank, row in enumerate(plan.coded.rows)
        if not _is_complete(plan, row, stages[rank])
    ]


_EMPTY: AbstractSet[int] = frozenset()


def _is_complete(plan: "Plan", row: Row, stages: list[int]) -> bool:
    done: dict[tuple[int, int], set[int]] = {}  # (kind, stage) → microbatches
    parts = 0
    for kind, stage, microbatch in row.parts():
        parts += 1
        key = kind, stage
        if key in done:
            done[key].add(microbatch)
        else:
            done[key] = {microbatch}
    if parts != sum(map(len, done.values())):
        return False  # one is there twice
    for stage in stages:
        all_of_them = plan.microbatches(stage)
        forward, full, of_input, of_weights = (
            done.get((kind, stage), _EMPTY) for kind in (FORWARD, FULL, INPUT, WEIGHT)
        )
        if len(forward) != len(all_of_them) or of_input != of_weights:
            return False
        owed = 0 if plan.forward_only else len(all_of_them)
        if len(full) + len(of_input) != owed or not full.isdisjoint(of_input):
            return False
    return True


_RECEIVES = {FORWARD: RECV_F, FULL: RECV_B, INPUT: RECV_B}
_OTHER_END = {SEND_F: (RECV_F, 1), RECV_F: (SEND_F, -1), SEND_B: (RECV_B, -1), RECV_B: (SEND_B, 1)}


def unmatched(plan: "Plan") -> list[int]:
    """List the ranks with messages that have one end, or work whose data no message brings.

    Of a plan without sends and receives none.
    """
    if not plan.is_lowered:
        return []
    width = plan.chunks
    present = {kind: bytearray(plan.stages * width) for kind in COMMS}
    for row in plan.coded.rows:
        for kind, stage, microbatch in row.parts():
            if kind in COMMS:
                present[kind][stage * width + microbatch] = 1
    crossing = _crossing(plan)

    def is_whole(row: Row) -> bool:
        for kind, stage, microbatch in row.parts():
            if kind in COMMS:
                if not crossing[kind][stage]:
                    return False  # to nowhere, or to its own rank
                kind, step = _OTHER_END[kind]
                stage += step
            elif kind == WEIGHT or not crossing[kind := _RECEIVES[kind]][stage]:
                continue
            if not present[kind][stage * width + microbatch]:
                return False
        return True

    return [rank for rank, row in enumerate(plan.coded.rows) if not is_whole(row)]


def _crossing(plan: "Plan") -> dict[int, list[bool]]:
    """Return, for each kind of message, of which stages there are ones to or from other ranks."""
    flow = Flow(plan)
    before, after = ([rank >= 0 for rank in ranks] for ranks in (flow.before, flow.after))
    return {SEND_F: after, RECV_B: after, RECV_F: before, SEND_B: before}


def before_receives(plan: "Plan") -> set[int]:
    """Return the ranks with work that stands before the receive of its data, if there are any."""
    if not plan.is_lowered:
        return set()
    crossing = _crossing(plan)
    late = set()
    for rank, row in enumerate(plan.coded.rows):
        received: set[tuple[int, int, int]] = set()
        for part in row.parts():
            kind, stage, microbatch = part
            if kind in (RECV_F, RECV_B):
                received.add(part)
                continue
            receive = _RECEIVES.get(kind)
            if receive is None or not crossing[receive][stage]:
                continue
            if (receive, stage, microbatch) not in received:
                late.add(rank)
                break
    return late
