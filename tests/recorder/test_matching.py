"""Who meets whom: messages by their channel, collectives by their number."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.trace import Op, State, Trace
from tests.checkers.builder import Story
from tests.checkers.rendezvous import Programs, Run, moves, programs


def partner(trace: Trace, rank: int, op: int) -> tuple[int, int] | None:
    match = trace.ranks[rank].ops[op].match
    return None if match is None else (match.rank, match.id)


def pairs(trace: Trace) -> set[tuple[tuple[int, int], tuple[int, int]]]:
    return {
        ((op.rank, op.id), (op.match.rank, op.match.id))
        for op in trace.operations()
        if op.match is not None
    }


def meetings(trace: Trace) -> dict[tuple[str, str, int], set[int]]:
    return {key: set(met) for key, met in trace.matcher.meetings.items()}


def test_messages_of_a_channel_meet_first_in_first_out() -> None:
    story = Story(2)
    sends = [story[0].isend(1) for _ in range(3)]
    receives = [story[1].irecv(0) for _ in range(3)]
    trace = story.trace()
    assert [partner(trace, 0, op) for op in sends] == [(1, op) for op in receives]


def test_the_order_of_waiting_does_not_matter() -> None:
    story = Story(2)
    sends = [story[0].isend(1) for _ in range(2)]
    receives = [story[1].irecv(0) for _ in range(2)]
    for op in reversed(receives):
        story[1].wait(op)
        story[1].back()
    trace = story.trace()
    assert [partner(trace, 0, op) for op in sends] == [(1, op) for op in receives]


def test_every_tag_is_a_channel_of_its_own() -> None:
    story = Story(2)
    story[0].isend(1, tag=1)
    story[0].isend(1, tag=2)
    story[1].irecv(0, tag=2)
    story[1].irecv(0, tag=1)
    trace = story.trace()
    assert [partner(trace, 0, op) for op in (0, 1)] == [(1, 1), (1, 0)]


def test_every_group_is_a_channel_of_its_own() -> None:
    story = Story(2, {"pair": [0, 1]})
    story[0].isend(1, group="pair")
    story[1].irecv(0)
    assert pairs(story.trace()) == set()


def test_both_directions_are_kept_apart() -> None:
    story = Story(2)
    story[0].isend(1)
    story[1].isend(0)
    assert pairs(story.trace()) == set()


@pytest.mark.parametrize("drops", ["send", "recv"])
def test_a_request_dropped_before_its_counterpart_is_posted_is_passed_over(drops: str) -> None:
    story = Story(2)
    first, second = (0, 1) if drops == "send" else (1, 0)
    post: dict[str, Callable[..., int]] = {"send": story[0].isend, "recv": story[1].irecv}
    other: dict[str, Callable[..., int]] = {"send": story[1].irecv, "recv": story[0].isend}
    story[first].drops(post[drops](second))
    post[drops](second)
    other[drops](first)
    assert partner(story.trace(), second, 0) == (first, 1)


def test_a_request_dropped_after_its_counterpart_was_posted_keeps_it() -> None:
    story = Story(2)
    handle = story[0].isend(1)
    story[1].irecv(0)
    story[0].drops(handle)
    assert partner(story.trace(), 1, 0) == (0, 0)


def test_a_drop_that_is_read_late_moves_what_follows_up() -> None:
    story = Story(2)
    story[0].drops(story[0].isend(1))
    story[0].isend(1)
    story[0].isend(1)
    story[1].irecv(0)
    story[1].irecv(0)
    late = [
        *(e for e in story.events if e[1][0] != "X"),
        *(e for e in story.events if e[1][0] == "X"),
    ]
    story.events = late
    trace = story.trace()
    assert [partner(trace, 1, op) for op in (0, 1)] == [(0, 1), (0, 2)]


def test_a_refused_operation_meets_nobody_and_the_next_takes_its_place() -> None:
    story = Story(2)
    receive = story[1].irecv(0)
    refused = story[0].isend(1)
    story[0].refused(refused)
    again = story[0].isend(1)
    trace = story.trace()
    assert partner(trace, 0, refused) is None
    assert partner(trace, 1, receive) == (0, again)


def test_a_refused_collective_does_not_count() -> None:
    story = Story(2)
    story[0].refused(story[0].post("all_reduce"))
    story[0].barrier()
    story[1].barrier()
    assert meetings(story.trace())["0", "", 0] == {0, 1}


def test_a_wait_that_raised_leaves_the_pair_as_it_was() -> None:
    story = Story(2)
    story[0].send(1)
    story[1].recv(0)
    story[0].raises_from_wait()
    trace = story.trace()
    assert partner(trace, 1, 0) == (0, 0)
    assert trace.ranks[0].ops[0].state is State.FAILED


def test_collectives_meet_by_their_number_whatever_they_are() -> None:
    story = Story(2)
    story[0].collective("all_reduce")
    story[1].barrier()
    assert meetings(story.trace())["0", "", 0] == {0, 1}


@pytest.mark.parametrize("kind", ["monitored_barrier", "new_group", "init_process_group"])
def test_some_collectives_are_counted_apart_from_the_others(kind: str) -> None:
    story = Story(2)
    story[0].collective(kind)
    story[0].barrier()
    story[1].barrier()
    met = meetings(story.trace())
    assert met["0", "", 0] == {0, 1}
    assert met["0", kind, 0] == {0}


def test_collectives_of_groups_are_counted_apart() -> None:
    story = Story(2, {"pair": [0, 1]})
    story[0].barrier(group="pair")
    story[0].barrier()
    story[1].barrier()
    met = meetings(story.trace())
    assert met["0", "", 0] == {0, 1}
    assert met["pair", "", 0] == {0}


@given(programs(), st.integers(0, 1000))
@settings(max_examples=60)
def test_pairs_do_not_depend_on_the_order_of_reading(what: Programs, seed: int) -> None:
    choices = random.Random(seed)
    run = Run(what, choices)
    for _ in moves(run, choices):
        pass
    expected = run.story.trace()
    for _ in range(3):
        trace = run.story.trace(shuffled=choices)
        assert pairs(trace) == pairs(expected)
        assert meetings(trace) == meetings(expected)


def test_a_pair_is_seen_from_both_ends() -> None:
    story = Story(2)
    story[0].isend(1)
    story[1].irecv(0)
    send: Op = story.trace().ranks[0].ops[0]
    assert send.match is not None
    assert send.match.match is send
