"""Shapes and plans that the tests of this folder draw."""

from collections.abc import Sequence
from functools import cache

from hypothesis import strategies as st

from pipeline.actions import Action, Kind
from pipeline.plan import Plan, build_plan
from pipeline.schedules import SCHEDULES

worlds = st.integers(1, 8)
chunk_counts = st.integers(1, 32)
names = st.sampled_from(list(SCHEDULES))
SIMPLE = [kind for kind in Kind if kind is not Kind.OVERLAP_F_B]


def actions_of(kinds: Sequence[Kind]) -> st.SearchStrategy[Action]:
    return st.builds(Action, st.integers(0, 200), st.sampled_from(kinds), st.integers(0, 5000))


pairs = st.builds(Action.overlap, actions_of([Kind.F]), actions_of([Kind.B]))
simple_actions = actions_of(SIMPLE)
actions = simple_actions | pairs


@cache
def accepted(name: str, max_world: int = 8, max_chunks: int = 32) -> list[tuple[int, int]]:
    """List the (world, chunks) that a schedule does not refuse."""
    return [
        (world, chunks)
        for world in range(1, max_world + 1)
        for chunks in range(1, max_chunks + 1)
        if not SCHEDULES[name].refusal(world, chunks)
    ]


FULL_ONE_STAGE = ("naive", "gpipe", "1f1b")
"""Those with one stage on a rank and full backwards."""


@st.composite
def plans(draw: st.DrawFn, max_chunks: int = 32, one_stage: bool = False) -> Plan:
    name = draw(st.sampled_from(FULL_ONE_STAGE) if one_stage else names)
    return build_plan(name, *draw(st.sampled_from(accepted(name, 8, max_chunks))))


@st.composite
def any_valid_plans(draw: st.DrawFn) -> Plan:
    """Draw orders that no schedule here has: run any ready action, wherever it is.

    Several stages a rank, backwards in any order, full and split, mixed.
    """
    world, chunks = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    per_rank = draw(st.integers(1, 2))
    stages = world * per_rank
    placement = tuple(draw(st.permutations([s % world for s in range(stages)])))
    split = draw(st.booleans())
    rows: list[list[Action]] = [[] for _ in range(world)]
    ready = [Action(0, Kind.F, m) for m in range(chunks)]
    while ready:
        action = ready.pop(draw(st.integers(0, len(ready) - 1)))
        rows[placement[action.stage]].append(action)
        stage, microbatch = action.stage, action.microbatch
        backward = Kind.I if split else Kind.B
        if action.kind is Kind.F:
            last = stage == stages - 1
            ready.append(Action(stage + (not last), backward if last else Kind.F, microbatch))
        elif action.kind is backward:
            if split:
                ready.append(Action(stage, Kind.W, microbatch))
            if stage > 0:
                ready.append(Action(stage - 1, backward, microbatch))
    return Plan("drawn", world, chunks, tuple(map(tuple, rows)), placement)
