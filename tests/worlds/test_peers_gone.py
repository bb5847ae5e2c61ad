"""What a rank meets whose peer has gone, comes late or never ends: told as what it is."""

from __future__ import annotations

import time

import pytest

import harness
from harness.worlds import Program, World
from harness.worlds.server import RankProcess
from tests.programs import peers_gone as programs
from tests.worlds.call import Call
from tests.worlds.running import assert_clean, line_of, run, the_finding


def test_leaving_with_status_0_is_a_good_end(world: World) -> None:
    outcome = run(world, programs.everyone_leaves_with_status_0)
    assert_clean(outcome)
    assert [rank.result for rank in outcome.ranks] == [None, None]


def test_whoever_waits_for_a_rank_that_left_with_status_0_is_orphaned(world: World) -> None:
    finding = the_finding(run(world, programs.one_leaves_with_status_0_too_early))
    assert (finding.code, finding.ranks) == ("orphan-wait", (0,))
    line = line_of(programs.one_leaves_with_status_0_too_early, "alone")
    assert finding.operations[0].line == line


def test_a_broken_pipe_at_a_send_is_the_death_of_its_peer(world: World) -> None:
    finding = the_finding(run(world, programs.sends_on_after_a_rank_was_killed, 3))
    assert (finding.code, finding.ranks) == ("rank-death", (2,))


def test_a_monitored_barrier_that_waited_in_vain_names_who_was_late(world: World) -> None:
    finding = the_finding(run(world, programs.a_rank_comes_late_to_a_monitored_barrier))
    assert finding.code == "rank-error"
    assert "Rank 1 failed to pass monitoredBarrier" in finding.message


def test_a_monitored_barrier_that_a_finished_rank_left_out_is_orphaned(world: World) -> None:
    finding = the_finding(run(world, programs.a_rank_never_comes_to_a_monitored_barrier))
    assert (finding.code, finding.ranks) == ("orphan-wait", (0,))
    line = line_of(programs.a_rank_never_comes_to_a_monitored_barrier, "never")
    assert finding.operations[0].line == line


def test_a_call_that_waits_and_is_refused_is_an_invalid_argument_still(world: World) -> None:
    finding = the_finding(run(world, programs.refuses_a_group_of_strangers))
    assert (finding.code, finding.ranks) == ("invalid-argument", (0, 1))


@pytest.mark.gloo
def test_a_circle_that_another_thread_may_break_is_a_timeout(gloo: World) -> None:
    finding = the_finding(run(gloo, programs.another_thread_sends_in_the_end, timeout=1))
    function = programs.another_thread_sends_in_the_end
    assert (finding.code, finding.details["suspected"]["code"]) == ("timeout", "deadlock")
    assert [op.line for op in finding.operations] == [
        line_of(function, "other"),
        line_of(function, "one"),
    ]


def test_what_ranks_do_while_they_are_killed_is_no_part_of_the_case(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill = RankProcess.kill

    def slowly(rank: RankProcess) -> None:
        kill(rank)
        time.sleep(0.1)  # for the other rank to see its connection closed

    monkeypatch.setattr(RankProcess, "kill", slowly)
    finding = the_finding(run(world, programs.sends_first_for_ever))
    assert (finding.code, finding.ranks) == ("deadlock", (0, 1))


def test_a_limit_ends_what_always_makes_progress(world: World) -> None:
    started = time.monotonic()
    outcome = world.run(Program(Call(programs.exchanges_for_ever)), 2, timeout=60, limit=1.0)
    assert outcome.ending == "timeout"
    assert time.monotonic() - started < 30


def test_a_deadlock_is_told_though_it_would_go_on_for_ever_with_buffered_sends() -> None:
    report = harness.run(programs.sends_first_for_ever, 2)
    assert [(finding.code, finding.cause) for finding in report.findings] == [("deadlock", "order")]
