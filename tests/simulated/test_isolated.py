"""The simulated world in a process of its own, which the program may take down with it."""

from __future__ import annotations

import pytest

import harness
from harness.api import shared_world
from harness.worlds import Simulated, World, WorldError
from harness.worlds.simulated.recorded import trace_hash
from tests.programs import correct, endings, refused, simulated
from tests.worlds.call import Function
from tests.worlds.running import assert_clean, assert_gone, findings, run, the_finding

pytestmark = pytest.mark.gloo


@pytest.fixture(scope="session")
def isolated() -> World:
    return shared_world("sim", isolated=True)


def test_a_run_is_the_same_as_in_process(sim: World, isolated: World) -> None:
    for how in (Simulated(), Simulated(interleaving="random:5"), Simulated("buffered")):
        traces = {
            trace_hash(run(world, correct.everything, 3, simulated=how, fresh=True))
            for world in (sim, isolated)
        }
        assert len(traces) == 1


@pytest.mark.parametrize(
    ("function", "ended"),
    [
        (refused.leaves_from_c, "left with status 5"),
        (refused.faults, "SIGSEGV"),
        (refused.aborts_from_c, "SIGABRT"),
        (refused.kills_from_c, "SIGKILL"),
    ],
)
def test_where_the_process_is_taken_down_real_ranks_decide(
    isolated: World, function: Function, ended: str
) -> None:
    outcome = run(isolated, function)
    assert "took its process down" in outcome.notes["instead"]
    assert ended in outcome.notes["instead"]
    finding = the_finding(outcome)
    assert (finding.code, finding.ranks) == ("rank-death", (1,))
    assert_clean(run(isolated, correct.everyone_counts))


def test_the_report_says_that_the_ranks_were_real() -> None:
    report = harness.run(f"{refused.__file__}:faults", 2, isolated=True, confirm=False)
    assert "SIGSEGV" in report.tried["on real ranks"]
    assert "SIGSEGV" in str(report)


@pytest.mark.parametrize(
    "function", [endings.killed, endings.leaves_without_a_word, simulated.terminates_itself]
)
def test_a_death_that_python_is_asked_for_is_simulated(isolated: World, function: Function) -> None:
    outcome = run(isolated, function)
    assert "instead" not in outcome.notes
    assert {finding.code for finding in findings(outcome)} == {"rank-death"}


def test_what_holds_the_interpreter_is_given_up(
    isolated: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.worlds.simulated.isolated._SLACK_S", 2.0)
    outcome = run(isolated, refused.is_long_in_c, timeout=2)
    assert outcome.ending == "timeout"
    assert_clean(run(isolated, correct.everyone_counts))


@pytest.mark.parametrize("function", [simulated.spins, simulated.swallows_everything_and_spins])
def test_a_rank_that_never_comes_back_is_given_up(isolated: World, function: Function) -> None:
    assert the_finding(run(isolated, function, timeout=0.5)).code == "timeout"
    assert_clean(run(isolated, correct.everyone_counts))


def test_refusals_are_the_same(isolated: World) -> None:
    with pytest.raises(WorldError, match=r"os\.fork; use --backend gloo"):
        run(isolated, refused.forks)


def test_output_is_kept_apart_and_told_live(isolated: World) -> None:
    lines: list[tuple[int, str]] = []
    outcome = run(isolated, endings.prints_a_partial_line, echo=lambda *line: lines.append(line))
    assert sorted(lines) == [(r, f"{w} {r}") for r in (0, 1) for w in ("partial", "whole")]
    assert outcome.ranks[1].output == "whole 1\npartial 1\n"


def test_what_a_child_prints_is_told(isolated: World) -> None:
    lines: list[str] = []
    function = refused.starts_a_child_that_prints
    run(isolated, function, echo=lambda _, line: lines.append(line))
    assert sorted(lines) == ["rank 0 of 2", "rank 1 of 2"]


def test_a_child_ends_with_the_run(isolated: World) -> None:
    outcome = run(isolated, refused.leaves_a_child)
    assert_gone([int(rank.output) for rank in outcome.ranks])
