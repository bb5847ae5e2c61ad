"""Every faulty program, simulated and on real ranks, ends and gets the one finding it deserves."""

from __future__ import annotations

from typing import Any

import pytest

from harness.worlds import World
from tests.programs import collectives, endings, messages
from tests.worlds.call import Function
from tests.worlds.running import findings, line_of, run, the_finding

LEFT_OUT = "missing-collective"


def check(
    world: World,
    function: Function,
    code: str,
    *,
    ending: str | None = None,
    size: int = 2,
    ranks: tuple[int, ...] | None = None,
    line: str | None = None,
    cause: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Run it; the comment ``line`` is at every operation of the finding. Returns its details."""
    outcome = run(world, function, size, **options)
    finding = the_finding(outcome)
    assert finding.code == code, finding.message
    assert finding.cause == cause
    # whether the others had noticed a failure when the case was decided is left to chance
    assert outcome.ending == ending or (ending is None and outcome.ending in ("failed", "stuck"))
    if ranks is not None:
        assert finding.ranks == ranks
    if line is not None:
        where = {(op.file, op.line, op.function) for op in finding.operations}
        assert where == {
            (function.__code__.co_filename, line_of(function, line), function.__name__)
        }
    assert finding.case == f"program world={size} backend=sim seed=0"
    return finding.details


@pytest.mark.parametrize(
    ("function", "size"),
    [
        (messages.both_send_first, 2),
        (messages.both_receive_first, 2),
        (messages.all_send_to_the_next, 3),
    ],
)
def test_ranks_that_wait_for_each_other_are_a_deadlock(
    world: World, function: Function, size: int
) -> None:
    ranks = tuple(range(size))
    asked: dict[str, Any] = {"size": size, "ranks": ranks, "line": "stuck", "cause": "order"}
    check(world, function, "deadlock", ending="stuck", **asked)


@pytest.mark.parametrize(
    ("function", "cause"),
    [(messages.tags_differ, "tag-mismatch"), (messages.groups_differ, "wrong-group")],
)
def test_a_send_and_a_receive_that_pass_each_other_are_a_deadlock_with_its_cause(
    world: World, function: Function, cause: str
) -> None:
    check(world, function, "deadlock", ending="stuck", ranks=(0, 1), cause=cause)


def test_a_barrier_against_a_receive_is_a_deadlock(world: World) -> None:
    asked: dict[str, Any] = {"ranks": (0, 1), "cause": "order"}
    check(world, collectives.barrier_against_receive, "deadlock", ending="stuck", **asked)


def test_a_message_that_is_never_sent_is_an_orphaned_wait(world: World) -> None:
    asked: dict[str, Any] = {"ranks": (1,), "line": "stuck", "cause": "missing-send"}
    check(world, messages.never_sent, "orphan-wait", ending="stuck", **asked)


def test_one_receive_from_anyone_too_many_is_an_orphaned_wait(world: World) -> None:
    function = messages.one_too_many_from_anyone
    asked: dict[str, Any] = {"size": 3, "ranks": (0,), "line": "stuck", "cause": "missing-send"}
    check(world, function, "orphan-wait", ending="stuck", **asked)


def test_a_barrier_on_one_rank_is_an_orphaned_wait(world: World) -> None:
    function = collectives.barrier_on_one_rank
    asked: dict[str, Any] = {"size": 3, "ranks": (1,), "line": "stuck", "cause": LEFT_OUT}
    details = check(world, function, "orphan-wait", ending="stuck", **asked)
    assert details["counts"] == {"0": 0, "1": 1, "2": 0}


def test_a_barrier_left_out_is_told_by_the_counts(world: World) -> None:
    function = collectives.one_barrier_left_out
    asked: dict[str, Any] = {"ranks": (0,), "line": "counted", "cause": LEFT_OUT}
    details = check(world, function, "orphan-wait", ending="stuck", **asked)
    assert details["counts"] == {"0": 3, "1": 2}


def test_a_group_made_on_one_rank_is_an_orphaned_wait(world: World) -> None:
    function = collectives.group_on_one_rank
    asked: dict[str, Any] = {"size": 3, "ranks": (0,), "line": "stuck", "cause": LEFT_OUT}
    check(world, function, "orphan-wait", ending="stuck", **asked)


def test_a_buffer_too_small_aborts_its_rank_and_is_one_finding(world: World) -> None:
    details = check(world, messages.buffer_too_small, "shape-mismatch", ending="failed")
    assert (details["sent"], details["received"]) == ([8], [4])
    assert details["followed_by"] == ["rank-death: rank 1 was killed by SIGABRT"]


def test_a_buffer_too_large_is_found_though_nothing_fails(world: World) -> None:
    check(world, messages.buffer_too_large, "shape-mismatch", ending="finished", ranks=(0, 1))


def test_a_buffer_of_another_dtype_is_found_though_nothing_fails(world: World) -> None:
    check(world, messages.buffer_of_another_dtype, "dtype-mismatch", ending="finished")


def test_a_dropped_handle_is_found_where_it_was_dropped(world: World) -> None:
    function = messages.dropped_handle
    check(world, function, "dropped-request", ending="stuck", ranks=(0,), line="dropped")


def test_a_message_that_is_never_received_is_found_at_its_send(world: World) -> None:
    function = messages.never_received
    check(world, function, "unreceived-message", ending="finished", ranks=(0, 1), line="unreceived")


def test_a_tensor_changed_before_the_wait_is_found_at_its_send(world: World) -> None:
    function = messages.changed_before_the_wait
    check(world, function, "buffer-overwrite", ending="finished", ranks=(0,), line="overwritten")


def test_a_send_to_itself_is_refused_on_every_rank_and_is_one_finding(world: World) -> None:
    function = messages.to_itself
    check(world, function, "invalid-argument", ending="failed", ranks=(0, 1), line="refused")


def test_a_negative_tag_is_refused(world: World) -> None:
    check(world, messages.negative_tag, "invalid-argument", ending="failed", ranks=(0, 1))


@pytest.mark.parametrize(
    ("function", "what", "ending"),
    [
        (collectives.kinds_differ, "kind", "stuck"),
        (collectives.sizes_differ, "element count", "failed"),
        (collectives.dtypes_differ, "dtype", "finished"),
        (collectives.ops_differ, "reduce op", "finished"),
        (collectives.roots_differ, "root", "stuck"),
        (collectives.swapped_all_reduces, "reduce op", "finished"),
    ],
)
def test_collectives_that_disagree_are_a_mismatch(
    world: World, function: Function, what: str, ending: str
) -> None:
    details = check(world, function, "collective-mismatch", ending=ending)
    assert (details["what"], details["number"]) == (what, 0)


@pytest.mark.parametrize(
    ("function", "line"), [(messages.polls_for_ever, "polls"), (messages.loops_for_ever, "loops")]
)
def test_what_cannot_be_decided_ends_by_time_with_the_stacks(
    world: World, function: Function, line: str
) -> None:
    outcome = run(world, function, timeout=2)
    finding = the_finding(outcome)
    assert (finding.code, outcome.ending) == ("timeout", "timeout")
    assert 1 in finding.ranks
    place = f"{function.__code__.co_filename}:{line_of(function, line)} in {function.__name__}"
    assert place in finding.details["stacks"]["1"]


def test_the_stack_of_a_rank_that_waits_is_there_too(world: World) -> None:
    finding = the_finding(run(world, messages.loops_for_ever, timeout=2))
    assert finding.ranks == (0, 1)
    assert f":{line_of(messages.loops_for_ever, 'waits')} in" in finding.details["stacks"]["0"][-1]


def test_a_send_first_on_both_ends_finishes_when_sends_are_buffered(world: World) -> None:
    outcome = run(world, messages.both_send_first, buffered_sends=True)
    assert outcome.ending == "finished"
    assert findings(outcome) == []
    assert run(world, messages.both_receive_first, buffered_sends=True).ending == "stuck"


def test_a_buffered_send_arrives_though_its_rank_has_ended(world: World) -> None:
    outcome = run(world, messages.sends_and_leaves, buffered_sends=True)
    assert outcome.ending == "finished"
    assert outcome.ranks[1].result == [7.0] * 3


def test_a_rank_that_raises_is_one_finding_though_another_waits_for_it(world: World) -> None:
    function = endings.raises
    details = check(world, function, "rank-error", ranks=(1,), line="raises")
    assert "KeyError: 'x'" in details["traceback"]
    assert "harness" not in details["traceback"].replace(function.__code__.co_filename, "")


def test_ranks_that_raise_the_same_are_one_finding(world: World) -> None:
    check(world, endings.all_raise, "rank-error", ending="failed", ranks=(0, 1), line="raises")


def test_a_killed_rank_is_the_cause_of_what_the_others_raise(world: World) -> None:
    details = check(world, endings.killed, "rank-death", size=3, ranks=(1,))
    assert details["exit_status"] == -9


def test_a_rank_that_leaves_without_a_word_is_a_death_with_its_status(world: World) -> None:
    function = endings.leaves_without_a_word
    assert check(world, function, "rank-death", ranks=(0,))["exit_status"] == 3


def test_a_failure_that_the_program_survives_is_still_the_death_of_its_peer(world: World) -> None:
    function = endings.catches_the_failure_of_its_peer
    check(world, function, "rank-death", ranks=(1,))
