"""Ranks are used again, and nothing of one case is there in the next."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.worlds import World
from tests.programs import correct, endings
from tests.torch_versions import since
from tests.worlds.running import assert_clean, run

QUIET = since("2.9", "has a gloo that prints a line when it connects")

pytestmark = pytest.mark.gloo


def states(world: World, **options: Any) -> list[dict[str, Any]]:
    return [rank.result for rank in run(world, endings.state_of_the_process, **options).ranks]


@QUIET
def test_ranks_that_ended_well_are_used_again(gloo: World) -> None:
    before = {state["pid"] for state in states(gloo)}
    assert before & {state["pid"] for state in states(gloo, size=8)}


def test_fresh_ranks_have_run_nothing_and_are_not_used_again(gloo: World) -> None:
    used = {state["pid"] for state in states(gloo)}
    fresh = {state["pid"] for state in states(gloo, fresh=True)}
    assert not used & fresh
    assert not fresh & {state["pid"] for state in states(gloo)}


@QUIET
def test_ranks_of_a_failed_case_are_not_used_again(gloo: World) -> None:
    failed = {int(rank.output) for rank in run(gloo, endings.tells_its_id_and_raises).ranks}
    assert not failed & {state["pid"] for state in states(gloo, size=8)}


@QUIET
def test_what_a_program_does_to_its_process_is_undone_before_the_next(gloo: World) -> None:
    (clean,) = states(gloo, size=1, seed=5)
    soiled = {rank.result for rank in run(gloo, endings.soils_the_process).ranks}
    again = [state for state in states(gloo, size=8, seed=5) if state["pid"] in soiled]
    assert again, "no rank was used again"
    for state in again:
        for what in (
            *("folder", "path", "arguments", "draws", "dtype", "grad", "threads"),
            *("device", "deterministic", "filters", "handlers", "timer"),
        ):
            assert state[what] == clean[what], what
        assert "SOILED" not in state["environment"]
        assert state["environment"].get("HOME") == os.environ.get("HOME")


@QUIET
def test_what_a_rank_prints_is_there_again_after_its_output_was_replaced(gloo: World) -> None:
    run(gloo, endings.soils_the_process)
    assert run(gloo, endings.prints_a_partial_line).ranks[0].output.startswith("whole 0\n")


@QUIET
def test_a_rank_still_tells_its_stack_after_its_signal_was_taken(gloo: World) -> None:
    soiled = {rank.result for rank in run(gloo, endings.soils_the_process).ranks}
    idle = len(gloo._idle)  # type: ignore[attr-defined]
    outcome = run(gloo, endings.tells_its_id_and_sleeps, idle, timeout=0.5)
    assert outcome.ending == "timeout"
    assert soiled & {int(rank.output) for rank in outcome.ranks}
    assert all(rank.stack for rank in outcome.ranks)


def test_a_rank_has_the_surroundings_of_the_command(
    gloo: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OF_THE_COMMAND", "yes")
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    for state in states(gloo):
        assert state["folder"] == str(tmp_path)
        assert state["environment"]["OF_THE_COMMAND"] == "yes"
        assert state["path"] == sys.path


def test_a_rank_has_the_variables_of_torchrun(gloo: World) -> None:
    for rank, state in enumerate(states(gloo)):
        environment = state["environment"]
        assert environment["RANK"] == environment["LOCAL_RANK"] == str(rank)
        assert environment["WORLD_SIZE"] == environment["LOCAL_WORLD_SIZE"] == "2"
        assert environment["MASTER_ADDR"] == "127.0.0.1"
        assert int(environment["MASTER_PORT"]) > 0
        assert environment["OMP_NUM_THREADS"] == os.environ.get("OMP_NUM_THREADS", "1")


def test_the_same_seed_gives_the_same_numbers_on_every_rank(gloo: World) -> None:
    one, two = states(gloo, seed=1), states(gloo, seed=2)
    assert one[0]["draws"] == one[1]["draws"]
    assert one[0]["draws"] != two[0]["draws"]


def test_a_group_that_is_made_again_does_not_meet_what_an_earlier_case_left(gloo: World) -> None:
    for _ in range(3):
        assert_clean(run(gloo, correct.makes_its_group_again))
        run(gloo, endings.tells_its_id_and_raises)  # its ranks end, and their addresses with them
