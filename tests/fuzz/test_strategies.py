"""What a campaign tries: the corners first, then cases that the seed alone decides."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given

from harness.case import Case
from harness.parity.shape import workload_of
from harness.strategies import cases, corners
from harness.stream import Limits, draw, stream
from harness.targets import Target
from pipeline.model import chunk_sizes, split

SCHEDULE = Target("1f1b", "schedule")
STEP = Target("step.py:step", "step")


def first(target: Target, limits: Limits, count: int) -> list[Case]:
    return [case for case, _ in zip(stream(target, limits, "gloo"), range(count), strict=False)]


@given(cases("1f1b"))
def test_every_drawn_case_can_be_cut_and_prints_as_it_parses(case: Case) -> None:
    assert case.batch is not None
    assert case.chunks is not None
    assert case.layers is not None
    assert len(chunk_sizes(case.batch, case.chunks)) == case.chunks
    assert len(split(case.layers, case.world)) == case.world
    assert workload_of(case).batch == case.batch
    assert Case.parse(str(case)) == case


@pytest.mark.parametrize("worlds", [(1,), (8,), (2, 4), (3, 5, 7)])
@pytest.mark.parametrize("chunks", [(1,), (20,), (2, 3, 4)])
def test_restrictions_hold_for_corners_and_drawn_cases(
    worlds: tuple[int, ...], chunks: tuple[int, ...]
) -> None:
    limits = Limits(worlds=worlds, chunks=chunks)
    for case in first(STEP, limits, 12):
        assert case.world in worlds
        assert case.chunks in chunks


def test_eight_cases_see_the_usual_corners() -> None:
    tried = first(STEP, Limits(), 8)
    assert any((case.world, case.chunks) == (2, 2) for case in tried)
    assert any((case.chunks or 0) < case.world - 1 for case in tried)
    assert any((case.batch or 0) % (case.chunks or 1) for case in tried)
    assert any((case.layers or 0) % case.world for case in tried)
    assert any(case.world == 1 for case in tried)
    assert any(case.chunks == 1 for case in tried)
    assert {case.optimizer for case in tried} == {"sgd", "adam"}
    assert {case.workload for case in tried} == {"conditioned", "seed"}
    assert max(case.steps or 0 for case in tried) > 1
    assert sum(case.delay == 0 for case in tried) > 4


def test_no_case_comes_twice() -> None:
    tried = first(STEP, Limits(), 150)
    assert len(set(tried)) == len(tried) == 150


def test_a_space_of_one_shape_still_gives_cases() -> None:
    assert len(first(STEP, Limits(worlds=(1,), chunks=(1,)), 30)) == 30


def test_a_seed_gives_the_same_cases_and_another_seed_others() -> None:
    assert first(STEP, Limits(seed=5), 40) == first(STEP, Limits(seed=5), 40)
    assert first(STEP, Limits(seed=5), 40)[9:] != first(STEP, Limits(seed=6), 40)[9:]


def test_what_was_drawn_before_does_not_matter() -> None:
    once = draw(cases("x"), 5, 3)
    draw(cases("x"), 7, 4)
    assert draw(cases("x"), 5, 3) == once


def test_cases_are_the_same_in_another_process_with_other_hashes_and_modules() -> None:
    code = (
        "{}from harness.stream import Limits, stream\nfrom harness.targets import Target\n"
        "t = Target('step.py:step', 'step')\n"
        "print([str(c) for c, _ in zip(stream(t, Limits(seed=5), 'gloo'), range(40))])\n"
    )

    def elsewhere(preamble: str, hashes: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", code.format(preamble)],
            env=os.environ | {"PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    here = str([str(case) for case in first(STEP, Limits(seed=5), 40)])
    assert elsewhere("", "1") == elsewhere("import harness.cli, json\n", "2") == here


def test_comm_policies_are_for_schedules_and_plans_only() -> None:
    assert {case.policy for case in first(SCHEDULE, Limits(), 30)} == {"batched"}
    assert {case.policy for case in first(SCHEDULE, Limits(policy="blocking"), 9)} == {"blocking"}
    assert {case.policy for case in first(STEP, Limits(), 9)} == {None}


def test_corners_that_restrictions_make_equal_come_once() -> None:
    limited = list(corners("x", worlds=(2,), chunks=(2,)))
    shapes = [(case.world, case.chunks, case.batch, case.layers) for case in limited]
    assert len(set(shapes)) == len(shapes)


@given(cases("torch", even_batches=True))
def test_batches_are_even_where_a_target_takes_no_others(case: Case) -> None:
    assert case.batch is not None
    assert case.chunks is not None
    assert case.batch % case.chunks == 0


def test_corners_are_even_as_well_where_they_have_to_be() -> None:
    even = list(corners("torch", even_batches=True))
    assert len(even) > 5
    assert all(c.batch and c.chunks and c.batch % c.chunks == 0 for c in even)
    assert any(c.batch and c.chunks and c.batch % c.chunks for c in corners("1f1b"))
