"""Receives from any source: which of them, and which sends, can be proved hopeless."""

from __future__ import annotations

from tests.checkers.builder import Story, found, stuck


def test_a_receive_from_any_source_waits_while_some_rank_may_send() -> None:
    story = Story(3)
    story[0].recv(None)
    story[1].finishes()
    assert stuck(story) == []
    story[2].finishes()
    finding = found(story)
    assert (finding.code, finding.ranks) == ("orphan-wait", (0,))
    assert "ranks 1 and 2" in finding.message


def test_a_receive_from_any_source_ends_when_a_send_is_there() -> None:
    story = Story(2)
    story[0].recv(None)
    story[1].send(0)
    assert stuck(story) == []


def test_a_receive_from_any_source_does_not_get_a_message_of_another_tag() -> None:
    story = Story(2)
    story[0].recv(None, tag=1)
    story[1].send(0, tag=2)
    assert stuck(story) == [0, 1]


def test_a_send_that_a_receive_from_any_source_may_take_is_not_stuck() -> None:
    story = Story(2)
    story[0].irecv(None)
    story[0].recv(1, tag=5)
    story[1].send(0)  # ends, and what follows may be the send with tag 5
    assert stuck(story) == []


def test_all_to_all_receives_from_any_source_are_a_cycle() -> None:
    story = Story(2)
    story[0].recv(None)
    story[1].recv(None)
    assert found(story).code == "deadlock"


def test_a_message_taken_from_any_source_is_not_there_for_the_next_receive() -> None:
    story = Story(2)
    story[1].send(0)
    story[0].recv(None)
    story[1].back()
    story[1].finishes()
    story[0].back(source=1)
    story[0].recv(None)
    assert found(story).ranks == (0,)
