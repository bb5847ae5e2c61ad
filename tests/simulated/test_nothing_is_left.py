"""However a run ends, this process is as it was: the fixture ``nothing_is_left`` looks."""

from __future__ import annotations

import sys

import pytest
import torch.distributed as dist

from harness.worlds import Simulated, World, WorldError
from tests.programs import correct, endings, messages, simulated
from tests.worlds.call import Function
from tests.worlds.running import assert_clean, run


def test_a_clean_run(sim: World) -> None:
    assert_clean(run(sim, correct.everything, 3))
    assert not dist.is_initialized()


@pytest.mark.parametrize(
    ("function", "ending"),
    [
        (simulated.soils_everything, "finished"),
        (simulated.soils_and_raises, "failed"),
        (simulated.soils_and_deadlocks, "stuck"),
        (simulated.soils_and_hangs, "timeout"),
    ],
)
def test_a_program_that_changes_whatever_it_can(
    sim: World, function: Function, ending: str
) -> None:
    for guard in (False, True):
        how = Simulated(guard=guard)
        assert run(sim, function, timeout=0.3, simulated=how).ending == ending


@pytest.mark.parametrize(
    ("function", "ending"),
    [
        (endings.killed, "failed"),
        (endings.leaves_without_a_word, "failed"),
        (endings.exits_with_status_3, "failed"),
        (endings.exits_with_status_0, "finished"),
        (endings.recurses, "failed"),
        (endings.raises_what_cannot_be_printed, "failed"),
        (messages.buffer_too_small, "failed"),
        (messages.both_receive_first, "stuck"),
    ],
)
def test_a_run_that_fails(sim: World, function: Function, ending: str) -> None:
    assert run(sim, function).ending == ending


def test_a_refused_program(sim: World) -> None:
    with pytest.raises(WorldError, match=r"os\.fork"):
        run(sim, endings.forks_and_both_return)


def test_handles_and_groups_in_a_cycle(sim: World) -> None:
    assert_clean(run(sim, simulated.keeps_a_handle))


def test_one_rank_and_sixty_four(sim: World) -> None:
    for size in (1, 64):
        outcome = run(sim, correct.everyone_counts, size)
        assert_clean(outcome)
        assert {rank.result for rank in outcome.ranks} == {size * (size - 1) / 2}


def test_the_user_s_modules_are_the_same_objects_as_before(sim: World) -> None:
    before = sys.modules["tests.programs.simulated"]
    for fresh in (True, False):
        run(sim, simulated.counts_by_a_global, fresh=fresh)
        assert sys.modules["tests.programs.simulated"] is before
        assert simulated.counter == 0


def test_what_whoever_looks_on_raises_is_no_rank_s_error(sim: World) -> None:
    def echo(rank: int, line: str) -> None:
        raise LookupError(line)

    with pytest.raises(LookupError, match="whole"):
        run(sim, endings.prints_a_partial_line, echo=echo)
    assert_clean(run(sim, correct.everyone_counts))


@pytest.mark.gloo
def test_simulated_and_real_ranks_in_turn(sim: World) -> None:
    from harness.api import shared_world

    gloo = shared_world("gloo")
    for world in (sim, gloo, sim, gloo):
        assert_clean(run(world, correct.everything, 3))
