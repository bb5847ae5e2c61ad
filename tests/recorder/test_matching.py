"""Who meets whom: messages by their channel, collectives by their number."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.checkers.deadlock import check, find_stuck
from harness.checkers.mismatches import check_collectives, check_messages, check_skew
from harness.checkers.requests import check_buffers, check_unawaited, check_unreceived
from harness.matching import KEPT
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


def test_a_receive_from_any_source_meets_its_sender_once_it_has_ended() -> None:
    story = Story(3)
    story[1].send(0)
    story[2].send(0)
    receive = story[0].recv(None)
    assert partner(story.trace(), 0, receive) is None
    story[0].back(source=2)
    trace = story.trace()
    assert partner(trace, 0, receive) == (2, 0)
    assert trace.ranks[0].ops[receive].source == 2
    assert [(op.rank, op.id) for op in trace.matcher.unpaired()] == [(1, 0)]


def test_the_source_of_a_receive_in_a_group_is_told_by_its_global_rank() -> None:
    story = Story(3, {"pair": [0, 2]})
    story[2].send(0, group="pair")
    receive = story[0].recv(None, group="pair")
    story[0].back(source=1)
    assert partner(story.trace(), 0, receive) == (2, 0)


def test_a_receive_from_any_source_that_is_read_before_its_send_still_meets_it() -> None:
    story = Story(2)
    story[0].recv(None)
    story[0].back(source=1)
    story[0].recv(None)
    story[0].back(source=1)
    story[1].send(0)
    story[1].back()
    story[1].send(0)
    trace = story.trace()
    assert [partner(trace, 0, op) for op in (0, 1)] == [(1, 0), (1, 1)]
    assert list(trace.matcher.unpaired()) == []


def test_a_message_taken_from_any_source_moves_the_others_up() -> None:
    story = Story(2)
    wild = story[0].irecv(None)
    named = [story[0].irecv(1), story[0].irecv(1)]
    for _ in range(3):
        story[1].isend(0)
    story[0].wait(wild)
    story[0].back(source=1)
    trace = story.trace()
    assert [partner(trace, 0, op) for op in (wild, *named)] == [(1, 0), (1, 1), (1, 2)]


def two_messages(*receives: int | None) -> Story:
    """Rank 1 posts two receives, of 4 and of 8 elements; rank 0 sends as many of each."""
    story = Story(2)
    for source, size in zip(receives, (4, 8), strict=True):
        story[1].irecv(source, shape=(size,))
    for size in (4, 8):
        story[0].isend(1, shape=(size,))
    return story


def take(story: Story, receive: int, source: int | None = 0) -> None:
    story[1].wait(receive)
    story[1].back(source)


def test_receives_from_any_source_take_messages_in_the_order_of_their_posts() -> None:
    story = two_messages(None, None)
    take(story, 1)
    trace = story.trace()
    assert trace.ranks[1].ops[1].doubtful  # the other may have had either
    assert check_messages(trace) == []
    take(story, 0)
    trace = story.trace()
    assert [partner(trace, 1, op) for op in (0, 1)] == [(0, 0), (0, 1)]
    assert not any(op.doubtful for op in trace.operations())
    assert check_messages(trace) == []


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_receive_from_a_named_source_goes_before_a_later_one_from_any(
    order: tuple[int, int],
) -> None:
    story = two_messages(0, None)
    for receive in order:
        take(story, receive, None if receive == 0 else 0)
    trace = story.trace()
    assert [partner(trace, 1, op) for op in (0, 1)] == [(0, 0), (0, 1)]
    assert not any(op.doubtful for op in trace.operations())
    assert check_messages(trace) == []


def test_which_message_a_named_receive_has_is_open_until_an_earlier_wildcard_is_known() -> None:
    story = two_messages(None, 0)
    trace = story.trace()
    assert trace.ranks[1].ops[1].doubtful
    assert check_messages(trace) == []
    assert find_stuck(trace) == {}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_wildcard_and_a_later_named_receive_may_have_either_message(
    order: tuple[int, int],
) -> None:
    """Gloo gives the first message to the named one when it comes after both posts."""
    story = two_messages(None, 0)
    for receive in order:
        take(story, receive, 0 if receive == 0 else None)
    story[0].isend(1, shape=(2,))
    story[1].irecv(0, shape=(3,))
    trace = story.trace()
    assert trace.ranks[1].ops[0].doubtful
    assert trace.ranks[1].ops[1].doubtful
    (finding,) = check_messages(trace)  # what comes after them is certain again
    assert finding.details == {"sent": [2], "received": [3]}


def test_a_wildcard_that_had_ended_before_a_named_receive_was_posted_leaves_no_doubt() -> None:
    story = Story(2)
    story[0].isend(1, shape=(4,))
    story[1].recv(None, shape=(4,))
    story[1].back(source=0)
    story[1].irecv(0, shape=(8,))
    story[0].isend(1, shape=(9,))
    (finding,) = check_messages(story.trace())
    assert finding.details == {"sent": [9], "received": [8]}


def test_a_message_that_a_lost_wildcard_may_have_is_not_called_unreceived() -> None:
    story = Story(2)
    story[1].irecv(None)
    story[1].wait(0)
    story[1].back()  # ended, and from whom is not known
    story[0].isend(1)
    story[0].finishes()
    story[1].finishes()
    assert check_unreceived(story.trace()) == []


@given(st.data())
def test_wildcards_waited_for_in_any_order_meet_their_senders_in_the_order_of_posts(
    data: st.DataObject,
) -> None:
    sources = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=8))
    story = Story(4)
    received = [story[0].irecv(None) for _ in sources]
    sent = [(source, story[source].isend(0)) for source in sources]
    for at in data.draw(st.permutations(range(len(sources)))):
        story[0].wait(received[at])
        story[0].back(sources[at])
    trace = story.trace(shuffled=random.Random(data.draw(st.integers(0, 1000))))
    assert [partner(trace, 0, op) for op in received] == sent
    assert not any(op.doubtful for op in trace.operations())


def exchanges(story: Story, count: int, *, tag: int = 0) -> None:
    """Messages there and a barrier, over and over; everything is waited for."""
    for _ in range(count):
        story[0].send(1, line=1, tag=tag)
        story[1].recv(0, line=2, tag=tag)
        for rank in (0, 1):
            story[rank].back()
            story[rank].barrier(line=3)
        for rank in (0, 1):
            story[rank].back()


def kept(trace: Trace) -> int:
    return sum(len(rank.ops) for rank in trace.ranks)


def test_what_is_over_is_forgotten_but_for_the_last_of_it() -> None:
    story = Story(2)
    exchanges(story, 3000)
    trace = story.trace()
    assert kept(trace) == 2 * KEPT
    assert len(trace.matcher.meetings) <= KEPT
    assert trace.matcher.open == {}
    last = max(trace.ranks[0].ops)
    assert last == 2 * 3000 - 1
    assert {op.id for op in trace.ranks[0].ops.values()} == set(range(last + 1 - KEPT, last + 1))


def test_what_is_pending_is_never_forgotten() -> None:
    story = Story(2)
    lost = story[0].isend(1, tag=7, line=9)
    exchanges(story, 2500)
    trace = story.trace()
    assert lost in trace.ranks[0].ops
    assert [op.id for op in trace.matcher.unpaired()] == [lost]


def test_faults_are_still_known_when_their_operations_are_forgotten() -> None:
    story = Story(2)
    for rank in (0, 1):
        story[rank].collective("all_reduce", shape=(4 + rank,), line=8)
        story[rank].back()
    story[0].send(1, shape=(4,), line=6)
    story[1].recv(0, shape=(5,), line=7)
    for rank in (0, 1):
        story[rank].back()
    story[0].changes_buffer(story[0].isend(1, line=5))
    story[1].drops(story[1].irecv(0, line=4))
    story[0].wait(2)
    story[0].back()
    exchanges(story, 2500)
    trace = story.trace()
    assert [f.code for f in check_messages(trace)] == ["shape-mismatch"]
    assert [f.code for f in check_collectives(trace)] == ["collective-mismatch"]
    assert [f.code for f in check_buffers(trace)] == ["buffer-overwrite"]
    assert [f.code for f in check_unawaited(trace)] == ["unawaited-request"]


def test_a_skew_is_still_known_when_it_is_long_over() -> None:
    story = Story(2)
    for lines in [(1, 2), (2, 1)]:
        for rank, line in enumerate(lines):
            story[rank].barrier(line=line)
        for rank in (0, 1):
            story[rank].back()
    exchanges(story, 2500)
    assert [f.code for f in check_skew(story.trace())] == ["collective-skew"]


def test_counts_go_on_though_what_was_counted_is_forgotten() -> None:
    story = Story(2)
    exchanges(story, 2500)
    story[0].barrier(line=4)
    story[1].finishes()
    finding = check(story.trace())
    assert finding is not None
    assert finding.details["counts"] == {"0": 2501, "1": 2500}
    assert finding.details["counts_part_at"]["index"] == 2500


def test_a_tag_for_each_message_leaves_nothing_behind() -> None:
    story = Story(2)
    for tag in range(3000):
        exchanges(story, 1, tag=tag)
    assert len(story.trace().matcher._boxes) <= 1024


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


@given(st.data())
def test_wildcards_meet_their_senders_in_any_order_of_reading(data: st.DataObject) -> None:
    """Where a channel's messages are all taken from any source, first in is first out."""
    sources = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=8))
    choices = random.Random(data.draw(st.integers(0, 1000)))
    story = Story(4)
    sent: dict[int, list[int]] = {source: [] for source in (1, 2, 3)}
    for source in sources:
        sent[source].append(story[source].isend(0))
    received = []
    for source in sources:
        received.append(story[0].recv(None))
        story[0].back(source)
    trace = story.trace(shuffled=choices)
    for source, op in zip(sources, received, strict=True):
        assert partner(trace, 0, op) == (source, sent[source].pop(0))
    assert list(trace.matcher.unpaired()) == []


def test_a_pair_is_seen_from_both_ends() -> None:
    story = Story(2)
    story[0].isend(1)
    story[1].irecv(0)
    send: Op = story.trace().ranks[0].ops[0]
    assert send.match is not None
    assert send.match.match is send
