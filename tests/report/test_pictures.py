"""Calls in columns, and who met whom."""

from __future__ import annotations

import pytest

from harness.cli import main
from harness.report.columns import aligned
from harness.report.messages import render_messages
from tests.checkers.builder import Story


def test_the_two_ends_of_a_message_bear_one_letter_and_what_hangs_is_marked() -> None:
    story = Story(2)
    story[0].isend(1, tag=3)
    story[1].recv(0, tag=3)
    story[1].back()
    story[1].recv(0)
    drawn = render_messages(story.trace())
    assert drawn.splitlines()[0].split() == ["rank", "0", "|", "rank", "1"]
    assert "a isend to 1, tag 3" in drawn
    assert "a recv from 0, tag 3" in drawn
    assert "! recv from 0 :" in drawn
    assert drawn.splitlines()[-1] == "! never ended, ~ never waited for"


def test_a_long_picture_is_cut_where_it_begins() -> None:
    story = Story(2)
    for _ in range(6):
        story[0].isend(1)
    assert "… 4 calls before" in render_messages(story.trace(), most=2)
    assert render_messages(Story(2).trace()) == ""


def test_a_replay_draws_its_calls(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "1f1b world=2 chunks=1 steps=1", "--messages"]) == 0
    drawn = capsys.readouterr().out
    assert "a batch_isend_irecv to 1 0SEND_F0" in drawn
    assert "a batch_isend_irecv from 0 1RECV_F0" in drawn


def test_columns() -> None:
    rows = [("name", "n", "what"), ("a", "10", "x")]
    assert list(aligned(rows, left=(0, -1))) == ["name   n  what", "a     10  x"]
    assert list(aligned(rows, left=(1,))) == ["name  n   what", "   a  10     x"]
