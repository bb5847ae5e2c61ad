"""What a rank wrote becomes operations with their places, states and waits."""

from __future__ import annotations

from harness.decode import Decoder
from harness.recorder import KINDS, REQUIRES_GRAD
from harness.trace import Compute, Group, Site, State
from tests.checkers.builder import Story


def test_an_operation_has_all_that_was_said_when_it_was_posted() -> None:
    story = Story(3, {"pair": [0, 2]})
    story[0].isend(
        2, group="pair", tag=4, shape=(2, 3), dtype="bfloat16", action="0SEND_F1", line=8
    )
    op = story.trace().ranks[0].ops[0]
    assert (op.kind, op.api, op.group, op.peer, op.tag) == ("send", "isend", "pair", 2, 4)
    assert (op.numel, op.shape, op.dtype, op.action) == (6, (2, 3), "bfloat16", "0SEND_F1")
    assert op.site == Site("program.py", 8, "step")
    assert op.state is State.POSTED
    assert op.pending


def test_groups_are_known_by_their_members() -> None:
    trace = Story(3, {"pair": [0, 2]}).trace()
    assert trace.groups == {"0": Group("0", (0, 1, 2)), "pair": Group("pair", (0, 2))}


def test_a_rank_is_blocked_from_the_start_of_a_wait_to_its_end() -> None:
    story = Story(2)
    op = story[0].isend(1, line=1)
    assert story.trace().ranks[0].blocked == []
    story[0].wait(op, line=2, gives_up=True, others=3, thread=7)
    history = story.trace().ranks[0]
    (wait,) = history.blocked
    assert (wait.op.id, wait.thread, wait.gives_up, wait.other_threads) == (op, 7, True, 3)
    assert wait.op.state is State.BLOCKED
    assert (wait.op.site.line, wait.op.at.line, wait.op.blocking) == (1, 2, False)
    story[0].back()
    history = story.trace().ranks[0]
    assert history.blocked == []
    assert history.ops[op].state is State.DONE
    assert not history.ops[op].pending


def test_a_call_that_waits_itself_is_at_its_own_line() -> None:
    story = Story(2)
    story[0].send(1, line=5)
    (wait,) = story.trace().ranks[0].blocked
    assert wait.op.blocking
    assert wait.op.at.line == 5


def test_two_threads_wait_side_by_side() -> None:
    story = Story(2)
    for thread in (1, 2):
        story[0].wait(story[0].irecv(1, tag=thread), thread=thread)
    assert len(story.trace().ranks[0].blocked) == 2


def test_a_dropped_handle_a_changed_buffer_and_a_destroyed_group_are_noted() -> None:
    story = Story(2)
    story[0].changes_buffer(story[0].isend(1))
    story[0].drops(0)
    story[0].destroys("0")
    history = story.trace().ranks[0]
    assert history.ops[0].state is State.DROPPED
    assert history.ops[0].overwritten
    ((group, at, site),) = history.destroyed
    assert (group, site.line) == ("0", 900)
    assert at > history.ops[0].posted_ns


def test_a_compute_says_what_where_and_when() -> None:
    decoder = Decoder(1)
    decoder.feed(
        [
            (0, ("S", 0, 1, "f.py", 3, "step")),
            (0, ("C", 9_000_000, 2, 5, 1, 4_000, KINDS.index("B") | REQUIRES_GRAD)),
            (0, ("C", 9_500_000, 2, 6, 0, 1, KINDS.index("F"))),
        ]
    )
    first, second = decoder.trace.ranks[0].computes
    site = Site("f.py", 3, "step")
    assert first == Compute(0, 2, "B", 5, 5_000_000, 9_000_000, site, requires_grad=True)
    assert (second.kind, second.requires_grad) == ("F", False)


def test_the_last_time_of_a_rank_is_that_of_its_last_event() -> None:
    story = Story(2)
    story[0].isend(1)
    story[1].irecv(0)
    trace = story.trace()
    assert 0 < trace.ranks[0].last_ns < trace.ranks[1].last_ns
