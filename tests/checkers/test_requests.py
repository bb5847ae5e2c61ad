"""The life of a request, from its post to its wait."""

from __future__ import annotations

from harness.checkers.requests import (
    check_buffers,
    check_destroyed,
    check_dropped,
    check_unawaited,
    check_unreceived,
)
from tests.checkers.builder import Story


def delivered(story: Story, *, first: str = "recv") -> int:
    """Rank 0 sends without waiting, rank 1 receives; which is posted first is told."""
    if first == "recv":
        receive = story[1].irecv(0)
        send = story[0].isend(1, line=3)
    else:
        send = story[0].isend(1, line=3)
        receive = story[1].irecv(0)
    story[1].wait(receive)
    story[1].back()
    return send


def test_a_handle_dropped_before_its_receive_was_posted_is_an_error() -> None:
    story = Story(2)
    story[0].drops(story[0].isend(1, line=3))
    story[1].recv(0)
    (finding,) = check_dropped(story.trace())
    assert (finding.code, finding.severity, finding.ranks) == ("dropped-request", "error", (0,))
    assert finding.operations[0].line == 3
    assert "never delivered" in finding.message


def test_a_dropped_receive_was_never_received() -> None:
    story = Story(2)
    story[1].drops(story[1].irecv(0))
    (finding,) = check_dropped(story.trace())
    assert "takes no message" in finding.message
    assert "for which nothing is sent" in finding.help


def test_a_blocking_call_that_came_back_without_a_wait_was_passed_over_by_the_backend() -> None:
    story = Story(2)
    story[0].drops(story[0].isend(1, api="send", line=3))  # as gloo does with a meta tensor
    story[1].recv(0)
    (finding,) = check_dropped(story.trace())
    assert (finding.code, finding.severity, finding.ranks) == ("invalid-argument", "error", (0,))
    assert finding.operations[0].line == 3
    assert "device" in finding.message


def test_a_sum_that_one_rank_started_and_left_names_the_rank_that_never_came() -> None:
    story = Story(2)
    story[0].drops(story[0].post("all_reduce", line=4))
    (finding,) = check_unawaited(story.trace())
    assert "rank 1 never came to it" in finding.message
    assert "every rank of the group" in finding.help
    story[1].drops(story[1].post("all_reduce", line=5))
    assert not any("never came" in found.message for found in check_unawaited(story.trace()))


def test_ranks_that_do_the_same_at_one_place_are_all_shown() -> None:
    story = Story(3)
    for rank in (1, 0, 2):
        story[rank].drops(story[rank].post("all_reduce", line=4))
    (finding,) = check_unawaited(story.trace())
    assert finding.ranks == (0, 1, 2)
    assert sorted(op.rank for op in finding.operations) == [0, 1, 2]
    assert finding.message.endswith("likewise")


def test_a_handle_dropped_after_the_message_arrived_is_only_never_waited_for() -> None:
    story = Story(2)
    story[0].drops(delivered(story))
    assert check_dropped(story.trace()) == []
    (finding,) = check_unawaited(story.trace())
    assert (finding.code, finding.severity) == ("unawaited-request", "warning")


def test_a_handle_dropped_on_nccl_is_kept_by_the_backend() -> None:
    story = Story(2)
    story[0].drops(story[0].isend(1))
    assert check_dropped(story.trace(), "nccl") == []


def test_the_same_line_drops_once_for_the_report() -> None:
    story = Story(3)
    for rank in (0, 2):
        for _ in range(3):
            story[rank].drops(story[rank].isend(1, line=3))
    (finding,) = check_dropped(story.trace())
    assert finding.details["times"] == 6
    assert finding.ranks == (0, 2)


def test_a_request_that_ended_and_was_never_waited_for_is_a_warning() -> None:
    story = Story(2)
    delivered(story)
    (finding,) = check_unawaited(story.trace())
    assert finding.ranks == (0,)


def test_a_request_that_was_waited_for_is_all_right() -> None:
    story = Story(2)
    story[0].wait(delivered(story))
    story[0].back()
    assert check_unawaited(story.trace()) == []
    assert check_dropped(story.trace()) == []


def test_a_wait_that_raised_ends_its_request() -> None:
    story = Story(2)
    story[0].wait(story[0].isend(1))
    story[0].raises_from_wait()
    assert check_dropped(story.trace()) == []
    assert check_unawaited(story.trace()) == []


def test_a_send_that_nobody_received_is_an_error_that_names_both_ranks() -> None:
    story = Story(2)
    story[0].isend(1, line=3)
    (finding,) = check_unreceived(story.trace())
    assert (finding.code, finding.ranks) == ("unreceived-message", (0, 1))


def test_a_receive_that_nobody_sent_to_is_no_unreceived_message() -> None:
    story = Story(2)
    story[0].irecv(1)
    assert check_unreceived(story.trace()) == []


def test_a_send_that_a_receive_from_anyone_may_have_is_not_unreceived() -> None:
    story = Story(2)
    story[0].isend(1)
    story[1].irecv(None)
    assert check_unreceived(story.trace()) == []


def test_a_buffer_changed_before_the_transfer_could_begin_is_an_error() -> None:
    story = Story(2)
    send = story[0].isend(1)
    story[0].changes_buffer(send)
    story[0].wait(send)
    story[1].recv(0)
    (finding,) = check_buffers(story.trace())
    assert (finding.code, finding.severity) == ("buffer-overwrite", "error")


def test_a_buffer_changed_when_the_transfer_may_have_been_over_is_a_warning() -> None:
    story = Story(2)
    story[1].recv(0)
    send = story[0].isend(1)
    story[0].changes_buffer(send)
    story[0].wait(send)
    (finding,) = check_buffers(story.trace())
    assert finding.severity == "warning"


def test_the_send_and_the_receive_of_one_batch_are_told_apart() -> None:
    story = Story(2)
    batch = {"api": "batch_isend_irecv", "line": 5}
    send, receive = story[0].isend(1, **batch), story[0].irecv(1, **batch)
    for op in (send, receive):
        story[0].changes_buffer(op)
        story[0].wait(op)
        story[1].recv(0) if op == send else story[1].send(0)
        story[0].back()
    found = {finding.code: finding for finding in check_buffers(story.trace())}
    assert found["buffer-overwrite"].operations[0].op == "batched isend"
    assert "its batched isend to rank 1" in found["buffer-overwrite"].message
    assert "its batched irecv from rank 1" in found["early-read"].message


def test_a_receive_buffer_touched_before_its_wait_is_an_early_read() -> None:
    story = Story(2)
    receive = story[0].irecv(1)
    story[0].changes_buffer(receive)
    story[0].wait(receive)
    story[1].send(0)
    (finding,) = check_buffers(story.trace())
    assert finding.code == "early-read"


def test_a_group_destroyed_while_a_send_is_pending_is_found_at_both_lines() -> None:
    story = Story(2)
    story[0].isend(1, line=3)
    story[0].destroys()
    (finding,) = check_destroyed(story.trace())
    assert (finding.code, finding.ranks) == ("early-destroy", (0,))
    assert "program.py:900" in finding.message
    assert finding.operations[0].line == 3


def test_a_group_destroyed_after_the_message_may_have_arrived_is_all_right() -> None:
    story = Story(2)
    delivered(story)
    story[0].destroys()
    assert check_destroyed(story.trace()) == []


def test_a_group_destroyed_while_a_collective_is_pending_is_found() -> None:
    story = Story(2)
    story[0].post("all_reduce", line=3)
    story[0].destroys()
    story[1].post("all_reduce")
    (finding,) = check_destroyed(story.trace())
    assert finding.operations[0].line == 3


def test_a_handle_that_goes_out_of_scope_only_after_the_destruction_was_pending_at_it() -> None:
    story = Story(2)
    send = story[0].isend(1, line=3)
    summed = story[0].post("all_reduce", line=4)
    story[0].destroys()
    story[0].drops(send)
    story[0].drops(summed)
    assert [f.operations[0].line for f in check_destroyed(story.trace())] == [3, 4]


def test_a_handle_that_was_dropped_before_the_destruction_is_not_the_destructions_fault() -> None:
    story = Story(2)
    story[0].drops(story[0].isend(1))
    story[0].destroys()
    assert check_destroyed(story.trace()) == []


def test_a_group_destroyed_after_all_came_to_its_collective_is_all_right() -> None:
    story = Story(2)
    for rank in (0, 1):
        story[rank].post("all_reduce")
    story[0].destroys()
    assert check_destroyed(story.trace()) == []


def test_what_was_posted_in_another_group_is_not_destroyed() -> None:
    story = Story(2, {"pair": [0, 1]})
    story[0].isend(1, group="pair")
    story[0].destroys("0")
    assert check_destroyed(story.trace()) == []
