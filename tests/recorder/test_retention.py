"""What is over is forgotten, and nothing that matters with it."""

from __future__ import annotations

from harness.checkers.deadlock import check
from harness.checkers.mismatches import check_collectives, check_messages, check_skew
from harness.checkers.requests import check_buffers, check_unawaited
from harness.matching import KEPT
from harness.trace import Trace
from tests.checkers.builder import Story


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
