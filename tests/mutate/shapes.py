"""Schedules and shapes that the tests of this folder draw."""

from collections.abc import Sequence

from hypothesis import strategies as st

from pipeline.schedules import RUNNABLE, SCHEDULES


def accepted(name: str, worlds: Sequence[int], chunks: Sequence[int]) -> list[tuple[int, int]]:
    """List the shapes that a schedule does not refuse."""
    refusal = SCHEDULES[name].refusal
    return [(world, count) for world in worlds for count in chunks if not refusal(world, count)]


def on_two_ranks(name: str) -> tuple[str, int, int]:
    """Return a schedule's smallest shape with two ranks, and more than one microbatch."""
    return (name, *accepted(name, [2], range(2, 33))[0])


def smallest(worlds: Sequence[int]) -> list[tuple[str, int, int]]:
    """List every schedule's smallest shape with each number of ranks that it accepts."""
    found = [(name, accepted(name, [world], range(1, 33))) for name in RUNNABLE for world in worlds]
    return [(name, *shapes[0]) for name, shapes in found if shapes]


@st.composite
def shapes(draw: st.DrawFn, most: int = 4) -> tuple[str, int, int]:
    """Draw a schedule with up to so many ranks."""
    name = draw(st.sampled_from(RUNNABLE))
    return (name, *draw(st.sampled_from(accepted(name, range(1, most + 1), range(1, 9)))))
