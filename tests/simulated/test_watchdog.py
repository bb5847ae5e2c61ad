"""A rank that never comes back is given up, and its thread ends: the next run is as any other."""

from __future__ import annotations

import pytest

from harness.worlds import Program, World
from tests.programs import correct, endings, simulated
from tests.worlds.call import Call, Function
from tests.worlds.running import assert_clean, line_of, run, the_finding


def gives_up(world: World, function: Function) -> None:
    outcome = run(world, function, timeout=0.4)
    assert outcome.ending == "timeout"
    finding = the_finding(outcome)
    assert (finding.code, finding.ranks) == ("timeout", (0, 1))
    assert_clean(run(world, correct.everyone_counts))


@pytest.mark.parametrize(
    "function",
    [
        simulated.spins,
        simulated.sleeps_in_a_loop,
        simulated.swallows_everything,
        simulated.swallows_everything_and_spins,
        simulated.raises_what_takes_for_ever_to_print,
        simulated.sleeps_for_long,
    ],
)
def test_what_makes_no_progress_is_a_timeout(sim: World, function: Function) -> None:
    gives_up(sim, function)


@pytest.mark.parametrize(
    ("function", "comment"),
    [
        (simulated.spins, "spins"),
        (simulated.sleeps_in_a_loop, "sleeps"),
        (simulated.sleeps_for_long, "too long"),
    ],
)
def test_a_timeout_says_where_each_rank_is(sim: World, function: Function, comment: str) -> None:
    outcome = run(sim, function, timeout=0.4)
    innermost = [rank.stack[-1] for rank in outcome.ranks if rank.stack]
    assert innermost
    for frame in innermost:
        assert (frame.file, frame.function) == (simulated.__file__, function.__name__)
        assert frame.line == line_of(function, comment)


@pytest.mark.parametrize(
    "function",
    [
        simulated.spins_once_it_is_told,
        simulated.receives_whatever_happens,
        simulated.communicates_at_its_end,
    ],
)
def test_what_a_rank_does_when_it_is_ended_does_not_change_the_verdict(
    sim: World, function: Function
) -> None:
    outcome = run(sim, function)
    assert the_finding(outcome).code == "deadlock"
    assert len(outcome.trace.operations()) == 2
    assert_clean(run(sim, correct.everyone_counts))


def test_a_limit_in_all_holds_though_there_is_progress(sim: World) -> None:
    program = Program(Call(endings.steps_for_ever))
    assert sim.run(program, 2, timeout=60, limit=0.3).ending == "timeout"
