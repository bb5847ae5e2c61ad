"""The proof of a deadlock: what is stuck, what may still go on, and what the finding says."""

from __future__ import annotations

import pytest

from harness.checkers.deadlock import before_failure, check, find_stuck
from tests.checkers.builder import Story, found, stuck


def test_two_ranks_that_send_first_wait_for_each_other() -> None:
    story = Story(2)
    story[0].send(1, line=10, action="0SEND_F1")
    story[1].send(0, line=20)
    finding = found(story)
    assert (finding.code, finding.ranks, finding.cause) == ("deadlock", (0, 1), "order")
    assert finding.message == "ranks 0 and 1 wait for each other"
    assert [(op.op, op.peer, op.line, op.action) for op in finding.operations] == [
        ("send", 1, 10, "0SEND_F1"),
        ("send", 0, 20, None),
    ]
    assert "isend" in finding.help


def test_two_ranks_that_receive_first_wait_for_each_other() -> None:
    story = Story(2)
    story[0].recv(1)
    story[1].recv(0)
    assert found(story).code == "deadlock"
    assert "send before it receives" in found(story).help


def test_a_send_to_a_rank_that_receives_from_a_third_can_close_a_cycle() -> None:
    story = Story(3)
    story[0].send(1)
    story[1].recv(2)
    story[2].recv(0)
    assert found(story).ranks == (0, 1, 2)
    assert "in a circle" in found(story).message


@pytest.mark.parametrize("kind", ["send", "recv"])
def test_a_ring_of_three_is_a_cycle_of_three(kind: str) -> None:
    story = Story(3)
    for rank in range(3):
        getattr(story[rank], kind)((rank + 1) % 3)
    assert stuck(story) == [0, 1, 2]
    assert found(story).details["cycle"] == [0, 1, 2]


def test_the_cycle_is_named_without_the_ranks_that_wait_behind_it() -> None:
    story = Story(4)
    story[0].recv(1)
    story[1].send(2)
    story[2].send(1)
    story[3].recv(0)
    finding = found(story)
    assert finding.ranks == (1, 2)
    assert finding.details["also_blocked"] == [0, 3]
    assert stuck(story) == [0, 1, 2, 3]


def test_ranks_that_run_beside_a_cycle_are_not_stuck() -> None:
    story = Story(3)
    story[0].send(1)
    story[1].send(0)
    assert stuck(story) == [0, 1]


def test_a_request_that_is_only_posted_blocks_nobody() -> None:
    story = Story(2)
    story[0].isend(1)
    story[1].send(0)
    assert stuck(story) == []


def test_waits_for_requests_close_a_cycle_as_blocking_calls_do() -> None:
    story = Story(2)
    story[0].wait(story[0].isend(1, line=1), line=7)
    story[1].wait(story[1].isend(0, line=2), line=8)
    finding = found(story)
    assert [(op.op, op.line) for op in finding.operations] == [
        ("isend, wait", 7),
        ("isend, wait", 8),
    ]


def test_a_receive_that_was_posted_ahead_lets_the_send_end() -> None:
    story = Story(2)
    story[0].irecv(1)
    story[0].send(1)
    story[1].send(0)  # the other rank's irecv takes it
    assert stuck(story) == []


def test_a_collective_against_a_receive_is_a_deadlock() -> None:
    story = Story(2)
    story[0].collective("all_reduce")
    story[1].recv(0)
    finding = found(story)
    assert (finding.code, finding.ranks) == ("deadlock", (0, 1))
    assert "all_reduce" in finding.help


def test_collectives_of_overlapping_groups_in_another_order_are_a_deadlock() -> None:
    story = Story(2, {"a": [0, 1], "b": [0, 1]})
    story[0].barrier(group="a")
    story[1].barrier(group="b")
    assert found(story).ranks == (0, 1)


def test_a_collective_that_everyone_has_come_to_is_not_stuck() -> None:
    story = Story(3)
    for rank in range(3):
        story[rank].barrier()
    assert stuck(story) == []


def test_a_barrier_on_some_ranks_is_orphaned_once_the_others_have_finished() -> None:
    story = Story(3)
    for rank in range(3):
        story[rank].barrier(line=5)
    for rank in range(3):
        story[rank].back()
    story[2].finishes()
    story[0].barrier(line=9)
    story[1].barrier(line=9)
    finding = found(story)
    assert (finding.code, finding.ranks) == ("orphan-wait", (0, 1))
    assert "rank 2, which has finished" in finding.message
    assert finding.details["counts"] == {"0": 2, "1": 2, "2": 1}
    assert finding.details["counts_part_at"] == {
        "index": 1,
        "0": "program.py:9",
        "1": "program.py:9",
        "2": "nothing: it has finished",
    }


def test_the_counts_part_where_the_lines_first_differ() -> None:
    story = Story(2)
    story[0].barrier(line=1)
    story[1].barrier(line=2)
    for rank in (0, 1):
        story[rank].back()
    story[1].finishes()
    story[0].barrier(line=2)
    part = found(story).details["counts_part_at"]
    assert part == {"index": 0, "0": "program.py:1", "1": "program.py:2"}


@pytest.mark.parametrize(
    ("kind", "text"),
    [("send", "send to rank 1, which has finished without the matching receive"),
     ("recv", "receive from rank 1, which has finished without the matching send")],
)  # fmt: skip
def test_a_message_whose_peer_has_finished_is_orphaned(kind: str, text: str) -> None:
    story = Story(2)
    getattr(story[0], kind)(1)
    story[1].finishes()
    finding = found(story)
    assert finding.code == "orphan-wait"
    assert finding.ranks == (0,)
    assert text in finding.message


def test_a_chain_behind_an_orphan_names_the_orphan() -> None:
    story = Story(3)
    story[0].recv(1)
    story[1].recv(2)
    story[2].finishes()
    finding = found(story)
    assert finding.ranks == (1,)
    assert finding.details["also_blocked"] == [0]


@pytest.mark.parametrize("ending", ["raises", "dies"])
def test_ranks_that_wait_for_a_failed_one_are_stuck_and_give_no_finding(ending: str) -> None:
    story = Story(3)
    story[0].recv(1)
    story[1].recv(2)
    getattr(story[2], ending)()
    assert stuck(story) == [0, 1]
    assert check(story.trace()) is None


def test_whoever_waits_for_a_rank_that_runs_is_not_stuck() -> None:
    story = Story(3)
    story[0].recv(1)
    story[1].send(2)  # which is slow
    assert stuck(story) == []
    assert check(story.trace()) is None


def test_a_barrier_that_one_rank_has_left_for_good_is_stuck_though_another_still_runs() -> None:
    story = Story(3)
    story[0].barrier()
    story[2].finishes()
    assert stuck(story) == [0]


def test_a_wait_that_gives_up_by_itself_proves_nothing_before_time_runs_out() -> None:
    story = Story(2)
    story[0].wait(story[0].irecv(1), gives_up=True)
    story[1].recv(0)
    assert stuck(story) == []
    assert sorted(find_stuck(story.trace(), give_up=True)) == [0, 1]


def test_another_thread_that_is_alive_may_still_post() -> None:
    story = Story(2)
    story[0].wait(story[0].irecv(1), others=1)
    story[1].recv(0)
    assert stuck(story) == []
    finding = check(story.trace(), give_up=True)
    assert finding is not None
    assert finding.code == "deadlock"


def test_a_rank_whose_threads_are_all_blocked_is_stuck() -> None:
    story = Story(2)
    story[0].wait(story[0].irecv(1), others=1, thread=1)
    story[0].wait(story[0].irecv(1, tag=5), others=1, thread=2)
    story[1].recv(0)
    assert stuck(story) == [0, 1]


def test_a_rank_one_of_whose_threads_goes_on_is_not_stuck() -> None:
    story = Story(2)
    story[0].wait(story[0].irecv(1), others=1, thread=1)
    story[0].wait(story[0].isend(1), others=1, thread=2)
    story[1].recv(0)
    assert stuck(story) == []


def test_tags_that_differ_are_the_cause() -> None:
    story = Story(2)
    story[0].send(1, tag=1, line=3)
    story[1].recv(0, tag=2, line=4)
    finding = found(story)
    assert (finding.code, finding.cause) == ("deadlock", "tag-mismatch")
    assert "tag 1" in finding.details["why"]
    assert "tag 2" in finding.details["why"]
    assert [op.tag for op in finding.operations] == [1, 2]


def test_groups_that_differ_are_the_cause() -> None:
    story = Story(2, {"pair": [0, 1]})
    story[0].send(1)
    story[1].recv(0, group="pair")
    assert found(story).cause == "wrong-group"


def test_an_orphan_whose_message_has_another_tag_says_so() -> None:
    story = Story(2)
    story[1].isend(0, tag=3)
    story[1].finishes()
    story[0].recv(1)
    finding = found(story)
    assert (finding.code, finding.cause) == ("orphan-wait", "tag-mismatch")


def test_a_collective_of_a_group_needs_its_members_only() -> None:
    story = Story(3, {"pair": [0, 2]})
    story[0].barrier(group="pair")
    story[1].finishes()
    assert stuck(story) == []
    story[2].barrier(group="pair")
    assert stuck(story) == []


def test_a_refused_operation_is_as_if_it_had_never_been_posted() -> None:
    story = Story(2)
    story[0].refused(story[0].isend(1))
    story[0].recv(1, tag=9)
    story[1].recv(0)
    assert stuck(story) == [0, 1]


def test_a_send_whose_handle_was_dropped_does_not_reach_a_later_receive() -> None:
    story = Story(2)
    story[0].drops(story[0].isend(1))
    story[0].finishes()
    story[1].recv(0)
    assert found(story).code == "orphan-wait"


def test_a_send_whose_handle_was_dropped_after_its_receive_was_posted_may_arrive() -> None:
    story = Story(2)
    handle = story[0].isend(1)
    story[1].recv(0)
    story[0].drops(handle)
    story[0].finishes()
    assert stuck(story) == []


def test_an_empty_trace_has_no_deadlock() -> None:
    assert check(Story(3).trace()) is None


def test_a_rank_with_several_waits_is_told_by_the_one_that_is_in_the_circle() -> None:
    story = Story(3)
    story[2].finishes()
    story[0].wait(story[0].irecv(2, tag=5, line=1), others=1, thread=1)
    story[0].wait(story[0].irecv(1, line=2), others=1, thread=2)
    story[1].recv(0, line=3)
    finding = found(story)
    assert (finding.code, finding.ranks) == ("deadlock", (0, 1))
    assert [op.line for op in finding.operations] == [2, 3]


def test_an_orphaned_wait_is_found_among_several_of_one_rank() -> None:
    story = Story(3)
    story[2].finishes()
    story[1].raises()
    story[0].wait(story[0].irecv(1, line=1), others=1, thread=1)
    story[0].wait(story[0].irecv(2, line=2), others=1, thread=2)
    finding = found(story)
    assert (finding.code, [op.line for op in finding.operations]) == ("orphan-wait", [2])


def test_a_rank_that_waits_for_itself_is_no_circle_of_several() -> None:
    story = Story(2)
    story[1].send(1)
    assert found(story).message == "rank 1 waits for itself"


def test_what_is_only_posted_ahead_under_another_tag_is_no_cause() -> None:
    story = Story(2)
    for rank in (0, 1):
        story[rank].irecv(1 - rank, tag=9)  # for a message that comes later, with that tag
        story[rank].send(1 - rank)
    finding = found(story)
    assert (finding.code, finding.cause) == ("deadlock", "order")
    assert "sends first" in finding.details["why"]


def test_what_is_only_posted_ahead_in_another_group_is_no_cause() -> None:
    story = Story(2, {"pair": [0, 1]})
    for rank in (0, 1):
        story[rank].irecv(1 - rank, group="pair")
        story[rank].send(1 - rank)
    assert found(story).cause == "order"


def test_a_monitored_barrier_that_gave_up_on_a_rank_that_had_finished_is_orphaned() -> None:
    story = Story(2)
    story[0].collective("monitored_barrier")
    story[1].finishes()
    story[0].raises_from_wait()
    story[0].raises()
    finding = check(before_failure(story.trace(), [0]))
    assert finding is not None
    assert (finding.code, finding.ranks) == ("orphan-wait", (0,))
    assert "monitored_barrier for rank 1, which has finished" in finding.message


def test_a_monitored_barrier_that_a_late_rank_came_to_is_not_orphaned() -> None:
    story = Story(2)
    story[0].collective("monitored_barrier")
    story[0].raises_from_wait()
    story[0].raises()
    story[1].collective("monitored_barrier")
    story[1].raises_from_wait()
    story[1].raises()
    assert check(before_failure(story.trace(), [0, 1])) is None
