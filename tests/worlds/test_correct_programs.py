"""Correct programs have no finding, however slow, threaded or unusual they are."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
from harness.api import shared_world
from harness.worlds import World, WorldError
from tests.programs import correct, endings, rings
from tests.torch_versions import since, until
from tests.worlds.call import Function
from tests.worlds.running import assert_clean, findings, run

SCRIPTS = Path(correct.__file__).parent / "scripts"


def test_much_of_torch_distributed_at_once(world: World) -> None:
    outcome = run(world, correct.everything, 3)
    assert_clean(outcome)
    for rank in range(3):
        objects, named, received = outcome.ranks[rank].result
        assert objects == [{"rank": 0}, {"rank": 1}, {"rank": 2}]
        assert named == [{"from": 1}]
        assert received == [float((rank - 1) % 3)] * 3


@pytest.mark.parametrize(
    "function",
    [
        correct.waits_in_another_order,
        correct.leader_and_followers,
        correct.polls_until_it_is_there,
        correct.takes_the_future,
        correct.waits_with_a_limit,
        correct.many_small_messages,
        correct.makes_its_group_again,
        correct.sends_one_half_and_changes_the_other,
        correct.sends_from_a_callback,
        correct.lets_a_group_time_out,
        pytest.param(
            correct.joins_with_uneven_batches,
            marks=until("2.14", "asks its backend from C++ in DDP, which the simulator refuses"),
        ),
        correct.mixes_functional_collectives,
        pytest.param(
            correct.waits_for_collectives_after_they_have_ended,
            marks=since("2.9", "has a gloo without all_to_all"),
        ),
        endings.exits_with_status_0,
    ],
)
def test_a_correct_program_of_two_ranks_has_no_finding(world: World, function: Function) -> None:
    assert_clean(run(world, function))


@pytest.mark.gloo
@pytest.mark.parametrize(
    "function",
    [
        correct.a_thread_sends,
        correct.both_threads_of_each,
        correct.a_thread_goes_on_after_the_end,
        correct.sends_from_a_thread_below_threading,
    ],
)
def test_threads_of_a_program_are_watched_on_real_ranks_and_refused_in_simulated_ones(
    gloo: World, function: Function
) -> None:
    assert_clean(run(gloo, function))
    with pytest.raises(WorldError, match=r"threads of the program's own, as at .*correct.py:\d+"):
        run(shared_world("sim"), function)


def test_a_rank_that_is_merely_slow_is_not_reported(world: World) -> None:
    assert_clean(run(world, endings.slow_rank))


def test_a_wait_that_gives_up_is_left_to_give_up(world: World) -> None:
    outcome = run(world, correct.waits_with_a_limit)
    assert outcome.ranks[0].result == "gave up"


def test_a_flat_send_into_a_shaped_buffer_is_a_warning_at_most(world: World) -> None:
    outcome = run(world, correct.flat_into_shaped)
    assert outcome.ending == "finished"
    assert [(f.code, f.severity) for f in findings(outcome)] == [("shape-mismatch", "warning")]


def test_messages_from_anyone_are_all_received(world: World) -> None:
    outcome = run(world, correct.from_anyone, 3)
    assert_clean(outcome)
    assert outcome.ranks[0].result == [1, 2]


@pytest.mark.parametrize("size", range(1, 9))
def test_worlds_of_every_size_run(world: World, size: int) -> None:
    outcome = run(world, correct.everyone_counts, size)
    assert_clean(outcome)
    assert [rank.result for rank in outcome.ranks] == [sum(range(size))] * size


def test_delays_between_operations_change_nothing(world: World) -> None:
    assert_clean(run(world, correct.waits_in_another_order, delay_ms=20, seed=3))


def test_a_group_that_only_its_members_make_is_no_finding(world: World) -> None:
    assert_clean(run(world, correct.makes_a_group_of_its_members_only, 3))


@pytest.mark.parametrize(("script", "world_size"), [("other_ranks", 2), ("half_a_world", 4)])
def test_nothing_is_concluded_where_rank_n_is_not_process_n(script: str, world_size: int) -> None:
    report = harness.run(str(SCRIPTS / f"{script}.py"), world_size, timeout=30, backend="gloo")
    assert report.findings == [], str(report)
    with pytest.raises(WorldError, match=r"cannot simulate a group .* use --backend gloo"):
        harness.run(str(SCRIPTS / f"{script}.py"), world_size, timeout=30)


@pytest.mark.gloo
def test_a_sum_of_sparse_tensors_is_no_finding_on_gloo() -> None:
    outcome = run(shared_world("gloo"), rings.sparse_sum, 2)
    assert [f.code for f in findings(outcome)] == []
    assert outcome.ranks[0].result.tolist() == [1.0, 1.0, 0.0, 0.0]
