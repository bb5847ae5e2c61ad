"""Receives from any source: which message they have, and when that is known."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.checkers.deadlock import find_stuck
from harness.checkers.mismatches import check_messages
from harness.checkers.requests import check_unreceived
from tests.checkers.builder import Story
from tests.recorder.test_matching import partner


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
