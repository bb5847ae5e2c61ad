"""Why ranks wait for ever: the cause that a trace shows, and the change that is named."""

from __future__ import annotations

import pytest

from tests.checkers.builder import Story, found


def test_a_circle_of_receives_is_one_of_order_and_names_a_receive_to_move() -> None:
    story = Story(2)
    story[0].recv(1, line=3)
    story[1].recv(0)
    finding = found(story)
    assert finding.cause == "order"
    assert "rank 0 before its recv from rank 1 (program.py:3)" in finding.help


def test_a_circle_of_sends_names_the_call_to_make_asynchronous() -> None:
    story = Story(2)
    story[0].send(1, line=3)
    story[1].send(0)
    assert found(story).cause == "order"
    assert "rank 0's send to rank 1 (program.py:3) an isend" in found(story).help


def test_a_wait_that_comes_right_behind_its_isend_is_to_be_moved() -> None:
    story = Story(2)
    story[0].wait(story[0].isend(1, line=3), line=4)
    story[1].send(0)
    assert "wait for rank 0's isend to rank 1 (program.py:4) only after" in found(story).help


def test_a_collective_against_a_message_says_before_what_to_call_it() -> None:
    story = Story(2)
    story[0].barrier(line=3)
    story[1].recv(0, line=8)
    finding = found(story)
    assert finding.cause == "order"
    assert "rank 1 to the barrier (program.py:3) before its recv from rank 0 (program.py:8)" in (
        finding.help
    )


def test_two_groups_in_other_orders_are_no_wrong_group() -> None:
    story = Story(2, {"a": [0, 1], "b": [0, 1]})
    story[0].collective("all_reduce", group="a")
    story[1].collective("all_reduce", group="b")
    assert found(story).cause == "order"


def test_a_collective_in_a_group_that_is_never_whole_is_in_the_wrong_one() -> None:
    story = Story(3, {"pair": [0, 1]})
    story[0].collective("all_reduce", group="pair")
    story[1].collective("all_reduce")
    story[2].finishes()
    finding = found(story)
    assert (finding.code, finding.cause) == ("deadlock", "wrong-group")
    assert "rank 1 in group pair" in finding.help


def test_groups_made_in_other_orders_are_told_by_their_members() -> None:
    story = Story(2)
    story[0].collective("new_group", group="new_group:0,1", shape=(0,), dtype="")
    story[1].collective("new_group", group="new_group:1,0", shape=(0,), dtype="")
    assert "rank 0 makes one of 0,1" in found(story).details["why"]
    assert "same lists of ranks in the same order" in found(story).help


@pytest.mark.parametrize(
    ("kind", "cause"), [("send", "missing-receive"), ("recv", "missing-send")]
)  # fmt: skip
def test_a_message_without_its_counterpart_names_which_is_missing(kind: str, cause: str) -> None:
    story = Story(2)
    getattr(story[0], kind)(1)
    story[1].finishes()
    assert (found(story).code, found(story).cause) == ("orphan-wait", cause)


def test_a_send_to_a_rank_with_which_nothing_is_exchanged_has_the_wrong_peer() -> None:
    story = Story(3)
    story[0].send(1)
    story[1].finishes()
    story[2].recv(0, line=7)
    finding = found(story)
    assert (finding.code, finding.ranks, finding.cause) == ("orphan-wait", (0,), "wrong-peer")
    assert "program.py:7" in finding.details["why"]
    assert "be to rank 2, not 1" in finding.help


def test_a_send_to_a_rank_with_which_others_were_exchanged_lacks_its_receive() -> None:
    story = Story(3)
    for rank, peer in ((0, 1), (1, 0)):
        (story[rank].send if rank == 0 else story[rank].recv)(peer)
        story[rank].back()
    story[0].send(1)
    story[1].finishes()
    story[2].recv(0)
    assert found(story).cause == "missing-receive"


def test_a_message_that_went_to_a_third_rank_has_the_wrong_peer() -> None:
    story = Story(3)
    story[0].isend(2, line=5)
    story[0].finishes()
    story[2].finishes()
    story[1].recv(0)
    finding = found(story)
    assert (finding.code, finding.cause) == ("orphan-wait", "wrong-peer")
    assert "let that isend name rank 1, not 2" in finding.help


def test_a_message_that_a_receive_from_any_source_took_is_one_of_order() -> None:
    story = Story(3)
    story[0].recv(None, line=4)
    story[1].send(0)
    story[0].back(source=1)
    story[1].back()
    story[1].finishes()
    story[2].isend(0)
    story[2].finishes()
    story[0].recv(1)
    finding = found(story)
    assert (finding.code, finding.cause) == ("orphan-wait", "order")
    assert "any rank at program.py:4 took the message of rank 1" in finding.details["why"]


def test_a_collective_that_is_left_out_in_between_is_named() -> None:
    story = Story(2)
    for rank, lines in ((0, (1, 2, 3)), (1, (1, 3))):
        for line in lines[:2]:
            story[rank].barrier(line=line)
            if rank == 0 or line == 1:
                story[rank].back()
    story[1].back()
    story[1].finishes()
    story[0].barrier(line=3)
    finding = found(story)
    assert (finding.code, finding.cause) == ("orphan-wait", "missing-collective")
    assert finding.details["why"].startswith("rank 1 leaves out the barrier at program.py:2")


def test_a_loop_that_ends_one_early_is_told_by_its_counts() -> None:
    story = Story(2)
    for rank in (0, 1):
        story[rank].collective("all_reduce", line=6)
    for rank in (0, 1):
        story[rank].back()
    story[1].finishes()
    story[0].collective("all_reduce", line=6)
    finding = found(story)
    assert finding.cause == "missing-collective"
    assert (
        "rank 0 comes to the all_reduce at program.py:6 2 times, and rank 1 once"
        in (finding.details["why"])
    )


def test_where_nothing_is_left_for_a_receive_from_any_source_a_send_is_missing() -> None:
    story = Story(2)
    story[0].recv(None)
    story[1].send(0)
    story[0].back(source=1)
    story[1].back()
    story[1].finishes()
    story[0].recv(1)
    finding = found(story)
    assert (finding.code, finding.cause) == ("orphan-wait", "missing-send")
