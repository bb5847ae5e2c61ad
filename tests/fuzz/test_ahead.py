"""Cases that are run ahead of their turn, in several processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from harness import ahead
from harness.ahead import Ahead
from harness.case import Case
from harness.execute import CaseResult, execute
from harness.fuzz import Limits, campaign
from harness.targets import parse_target
from harness.worlds import World, open_world
from pipeline.comms import Comms
from pipeline.model import Batch
from pipeline.stage import Stage


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "cores", lambda: 2)


@pytest.fixture(scope="module")
def isolated() -> Iterator[World]:
    with open_world("sim", isolated=True) as world:
        yield world


def dying_step(stage: Stage, comms: Comms, batch: Batch, chunks: int) -> None:
    """Take the process down, whatever stands around the rank."""
    if os.environ.get("RANK") == "1":
        import ctypes

        ctypes.string_at(0)


def unsent_step(stage: Stage, comms: Comms, batch: Batch, chunks: int) -> None:
    """Wait on the last rank for what nobody sends."""
    if comms.rank == comms.world_size - 1 and comms.rank > 0:
        comms.receive_forward((1, 1))


def cases(*texts: str) -> list[Case]:
    return [Case.parse(text) for text in texts]


def test_a_case_has_one_result_wherever_it_is_run(isolated: World) -> None:
    target = parse_target("1f1b", for_command="check")
    asked = cases(*(f"1f1b world=2 chunks={chunks} backend=sim seed=1" for chunks in range(1, 8)))
    results: dict[Case, CaseResult] = {}
    told = list(Ahead(target, isolated, 60.0, results).of(asked, lambda count: count))
    assert told == asked
    assert set(results) == set(asked[:-1])  # but for one that is left alone
    limits = Limits(worlds=(2, 3), chunks=(2, 3), cases=6)
    with open_world("sim") as world:
        for case, result in results.items():
            assert execute(target, case, world, 60.0) == result
        here = campaign(target, limits, world)
    there = campaign(target, limits, isolated)
    assert (here.cases, here.findings) == (there.cases, there.findings)


def test_findings_come_in_the_order_of_the_cases(isolated: World) -> None:
    target = parse_target(unsent_step, for_command="check")
    limits = Limits(worlds=(2, 3), chunks=(2,), cases=5)
    with open_world("sim") as world:
        here = campaign(target, limits, world)
    there = campaign(target, limits, isolated)
    assert here.findings
    assert [_told(found) for found in here.findings] == [_told(found) for found in there.findings]


def _told(finding: Any) -> tuple[str, str, str]:
    return finding.code, finding.message, finding.case


def test_what_takes_its_process_down_is_left_to_its_turn(isolated: World) -> None:
    target = parse_target(dying_step, for_command="check")
    asked = cases(
        *(f"t.py:step world=2 chunks={chunks} backend=sim seed=1" for chunks in (1, 2, 3))
    )
    results: dict[Case, CaseResult] = {}
    assert list(Ahead(target, isolated, 60.0, results).of(asked, lambda count: count)) == asked
    assert not results


def test_no_more_cases_are_run_than_may_be(isolated: World) -> None:
    target = parse_target("1f1b", for_command="check")
    asked = cases(*(f"1f1b world=2 chunks={chunks} backend=sim seed=1" for chunks in range(1, 5)))
    results: dict[Case, CaseResult] = {}
    told = Ahead(target, isolated, 60.0, results).of(asked, lambda count: 1)
    assert next(told) == asked[0]
    assert not results  # one alone is run in its turn
