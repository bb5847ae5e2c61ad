"""Messages that a receive meant for another one took."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.case import Case
from harness.checkers.labels import check_labels
from harness.findings import Finding
from harness.judge import judge
from harness.worlds import Outcome, RankOutcome
from tests.checkers.builder import Story
from tests.timeline.plans import trace_of


def messages(
    *pairs: tuple[str, str], planned: bool = True, world: int = 2, source: int = 0, target: int = 1
) -> Story:
    """Messages between two ranks, each with the labels of its two ends."""
    story = Story(world)
    for place, (sent, taken) in enumerate(pairs):
        story[source].send(target, action=sent, planned=planned, line=10 + place)
        story[target].recv(source, action=taken, planned=planned, line=20 + place)
        story[source].back()
        story[target].back()
    return story


def test_a_microbatch_taken_for_another_is_told_with_both_sides() -> None:
    story = messages(("0SEND_F1", "1RECV_F0"), ("0SEND_F0", "1RECV_F1"))
    first, second = check_labels(story.trace())
    assert (first.code, first.severity, first.ranks) == ("message-swap", "error", (0, 1))
    assert first.message == (
        "rank 1's 1RECV_F0 took rank 0's 0SEND_F1: the activation of microbatch 1 is used as that "
        "of microbatch 0"
    )
    assert first.help == (
        "let rank 1 post its receives in the order in which rank 0 posts its sends: 1RECV_F1 where "
        "1RECV_F0 stands, or move the send"
    )
    assert [(op.rank, op.line, op.action) for op in first.operations] == [
        (0, 10, "0SEND_F1"),
        (1, 20, "1RECV_F0"),
    ]
    assert first.details == {"what": "microbatch", "sent": "0SEND_F1", "received": "1RECV_F0"}
    assert [op.line for op in second.operations] == [11, 21]


def test_a_gradient_taken_for_an_activation_is_told_and_the_other_way_round() -> None:
    (finding,) = check_labels(messages(("1SEND_B0", "1RECV_F0")).trace())
    assert finding.details["what"] == "direction"
    assert "a gradient of microbatch 0 is used as an activation" in finding.message
    (finding,) = check_labels(messages(("0SEND_F2", "0RECV_B2")).trace())
    assert "an activation of microbatch 2 is used as a gradient" in finding.message


def test_an_activation_taken_by_another_stage_is_told() -> None:
    (finding,) = check_labels(messages(("0SEND_F0", "3RECV_F0")).trace())
    assert finding.details["what"] == "stage"
    assert "the activation for stage 1 is used on stage 3" in finding.message


def test_the_same_two_places_are_one_finding_with_how_often() -> None:
    story = Story(3)
    for rank in (0, 1):
        for sent, taken in ((1, 0), (0, 1)):
            story[rank].isend(rank + 1, action=f"{rank}SEND_F{sent}", line=1)
            story[rank + 1].irecv(rank, action=f"{rank + 1}RECV_F{taken}", line=2)
    (finding,) = check_labels(story.trace())
    assert (finding.details["times"], finding.ranks) == (4, (0, 1, 2))


def a_receive_from_anyone(story: Story) -> None:
    story[1].irecv(None, action="1RECV_F0")
    story[0].isend(1, action="0SEND_F1")
    story[0].isend(1, action="0SEND_F0")
    story[1].irecv(0, action="1RECV_F1")


def a_send_without_a_label(story: Story) -> None:
    story[0].isend(1)
    story[1].irecv(0, action="1RECV_F0")


def a_receive_inside_of_a_forward(story: Story) -> None:
    story[0].isend(1, action="0SEND_F1")
    story[1].irecv(0, action="1F0")


def a_receive_not_yet_posted(story: Story) -> None:
    story[0].isend(1, action="0SEND_F1")


def other_tags_in_another_order(story: Story) -> None:
    for microbatch in (1, 0):
        story[0].isend(1, tag=microbatch, action=f"0SEND_F{microbatch}")
    for microbatch in (0, 1):
        story[1].irecv(0, tag=microbatch, action=f"1RECV_F{microbatch}")


def waits_in_another_order(story: Story) -> None:
    for microbatch in (0, 1):
        story[0].isend(1, action=f"0SEND_F{microbatch}")
        story[1].irecv(0, action=f"1RECV_F{microbatch}")
    for op in (1, 0):
        story[1].wait(op)
        story[1].back()


def microbatches_in_descending_order(story: Story) -> None:
    for microbatch in (2, 1, 0):
        story[0].isend(1, action=f"0SEND_F{microbatch}")
        story[1].irecv(0, action=f"1RECV_F{microbatch}")


def counted_labels_of_which_one_side_has_posted_ahead(story: Story) -> None:
    """A step whose last call receives the next step's first message; counts begin anew."""
    for step in range(2):
        for n in range(2):
            story[0].isend(1, action=f"0SEND_F{n}", planned=False)
        for n in range(3 if step == 0 else 1):
            story[1].irecv(0, action=f"1RECV_F{n}", planned=False)


def one_side_counts_and_the_other_is_planned(story: Story) -> None:
    for microbatch, count in ((1, 0), (0, 1)):
        story[0].isend(1, action=f"0SEND_F{microbatch}")
        story[1].irecv(0, action=f"1RECV_F{count}", planned=False)


def both_directions_between_two_ranks(story: Story) -> None:
    for microbatch in (0, 1):
        story[0].isend(1, action=f"0SEND_F{microbatch}")
        story[1].irecv(0, action=f"1RECV_F{microbatch}")
        story[1].isend(0, action=f"1SEND_B{microbatch}")
        story[0].irecv(1, action=f"0RECV_B{microbatch}")


@pytest.mark.parametrize(
    "tell",
    [
        a_receive_from_anyone,
        a_send_without_a_label,
        a_receive_inside_of_a_forward,
        a_receive_not_yet_posted,
        other_tags_in_another_order,
        waits_in_another_order,
        microbatches_in_descending_order,
        counted_labels_of_which_one_side_has_posted_ahead,
        one_side_counts_and_the_other_is_planned,
        both_directions_between_two_ranks,
    ],
)
def test_nothing_is_said_of_a_message_that_may_be_right(tell: Callable[[Story], None]) -> None:
    story = Story(2)
    tell(story)
    assert check_labels(story.trace()) == []


@given(
    schedule=st.sampled_from(["naive", "gpipe", "1f1b"]),
    world=st.integers(1, 5),
    chunks=st.integers(1, 8),
    policy=st.sampled_from(["async", "isend", "blocking"]),
)
def test_the_built_in_schedules_are_silent(
    schedule: str, world: int, chunks: int, policy: str
) -> None:
    assert check_labels(trace_of(schedule, world, chunks, policy)) == []


def test_of_counted_labels_the_direction_is_still_compared() -> None:
    (finding,) = check_labels(messages(("1SEND_B0", "1RECV_F0"), planned=False).trace())
    assert finding.details["what"] == "direction"


def test_a_shift_after_a_lost_message_is_that_ones_doing() -> None:
    story = Story(2)
    story[0].drops(story[0].isend(1, action="0SEND_F0"))
    story[0].send(1, action="0SEND_F1")
    story[1].recv(0, action="1RECV_F0")
    assert check_labels(story.trace()) == []


def judged(story: Story) -> list[Finding]:
    ranks = [RankOutcome(rank, finished=True) for rank in range(story.world_size)]
    return judge(Outcome(story.trace(), ranks, "finished", 0.0), Case("plan.py:plan", 2))


def test_what_a_swap_makes_of_sizes_is_no_finding_of_its_own() -> None:
    story = Story(2)
    for sent, taken in ((1, 0), (0, 1)):
        story[0].send(1, action=f"0SEND_F{sent}", shape=(3 + sent,), line=10 + sent)
        story[1].recv(0, action=f"1RECV_F{taken}", shape=(3 + taken,), line=20 + taken)
        story[0].back()
        story[1].back()
    (finding,) = judged(story)
    assert finding.code == "message-swap"
    assert any(line.startswith("shape-mismatch") for line in finding.details["followed_by"])
