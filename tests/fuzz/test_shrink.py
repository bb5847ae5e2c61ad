"""Shrinking: the smallest case that still fails, in few runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.case import Case
from harness.shrink import shrink
from harness.strategies import cases

BIG = Case(
    "t",
    6,
    chunks=12,
    batch=38,
    layers=17,
    width=32,
    dtype="bfloat16",
    steps=3,
    optimizer="adam",
    workload="seed",
    delay=5,
    seed=792,
)


def shrunk(start: Case, fails: Callable[[Case], bool]) -> tuple[Case, int]:
    runs = 0

    def counted(case: Case) -> bool:
        nonlocal runs
        runs += 1
        assert (case.batch or 0) >= (case.chunks or 0)
        assert (case.layers or 0) >= case.world
        return fails(case)

    return shrink(start, counted), runs


@pytest.mark.parametrize(
    ("fails", "smallest"),
    [
        (lambda c: True, {"world": 1, "chunks": 1, "batch": 1, "layers": 1}),
        (
            lambda c: c.world > 1 and c.chunks > 1,
            {"world": 2, "chunks": 2, "batch": 2, "layers": 2},
        ),
        (lambda c: c.batch % c.chunks != 0, {"world": 1, "chunks": 2, "batch": 3}),
        (lambda c: c.layers % c.world != 0, {"world": 2, "layers": 3, "chunks": 1}),
        (lambda c: c.chunks < c.world - 1, {"world": 3, "chunks": 1, "batch": 1}),
        (lambda c: c.chunks >= 5 and c.world >= 3, {"world": 3, "chunks": 5, "batch": 5}),
        (lambda c: c.steps > 1, {"world": 1, "steps": 2}),
        (lambda c: c.dtype == "bfloat16", {"world": 1, "dtype": "bfloat16", "steps": 1}),
        (lambda c: c.delay > 0 and c.world == 6, {"world": 6, "delay": 5, "layers": 6}),
        (lambda c: c.seed == 792, {"seed": 792, "world": 1, "workload": "conditioned"}),
    ],
)
def test_what_does_not_matter_becomes_as_simple_as_can_be(
    fails: Callable[[Case], bool], smallest: dict[str, object]
) -> None:
    result, runs = shrunk(BIG, fails)
    assert {name: getattr(result, name) for name in smallest} == smallest
    assert fails(result)
    assert runs <= 80


def test_a_case_that_fails_alone_is_kept() -> None:
    assert shrunk(BIG, lambda case: False)[0] == BIG


@given(cases("t"), st.integers(1, 4), st.integers(1, 4), st.integers(1, 2))
def test_the_result_fails_and_is_minimal_in_world_and_chunks(
    start: Case, world: int, chunks: int, steps: int
) -> None:
    def fails(case: Case) -> bool:
        sizes = (case.world, case.chunks or 0, case.steps or 0)
        return sizes >= (world, 0, 0) and sizes[1] >= chunks and sizes[2] >= steps

    if not fails(start):
        return
    result, _ = shrunk(start, fails)
    assert (result.world, result.chunks, result.steps) == (world, chunks, steps)


def test_no_case_is_tried_twice() -> None:
    tried: list[Case] = []

    def fails(case: Case) -> bool:
        assert case not in tried
        tried.append(case)
        return case.world >= 3

    shrink(BIG, fails)
