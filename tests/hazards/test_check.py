"""From a trace to a finding, and traces that tell too little."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.hazards import check_hazards
from harness.hazards.check import why_not_analysed
from harness.hazards.scripts import bytes_of
from harness.trace import Trace
from tests.checkers.builder import MAIN, Story


def crossing(*, shape: tuple[int, ...] = (4,), tags: tuple[int, int] = (0, 0)) -> Story:
    """Both ranks post a send, then receive."""
    story = Story(2)
    sends = [story[r].isend(to=1 - r, shape=shape, tag=tags[r], line=1) for r in range(2)]
    for rank in range(2):
        story[rank].recv(1 - rank, shape=shape, tag=tags[1 - rank], line=2)
    for rank in range(2):
        story[rank].back()
        story[rank].wait(sends[rank], line=3)
        story[rank].back()
        story[rank].finishes()
    return story


def batched(trace: Trace, batches: dict[int, tuple[int, ...]]) -> Trace:
    for rank, ops in batches.items():
        for op in ops:
            trace.ranks[rank].ops[op].batch = ops[0]
    return trace


def test_a_finding_names_the_waits_and_what_they_stand_behind() -> None:
    (finding,) = check_hazards(crossing().trace(), severity="error")
    assert (finding.code, finding.severity, finding.cause) == (
        "nccl-hazard",
        "error",
        "needs-capacity",
    )
    assert [(op.rank, op.op, op.line, op.state) for op in finding.operations] == [
        (0, "recv", 2, "blocked"),
        (0, "isend", 1, "first in its queue"),
        (1, "recv", 2, "blocked"),
        (1, "isend", 1, "first in its queue"),
    ]
    assert "stands in the queue of group 0 behind rank 0's isend to rank 1" in finding.message
    assert "batch_isend_irecv" in finding.help
    assert finding.details["finishes_with_bytes"] == 16


def test_the_same_two_operations_in_a_batch_are_safe() -> None:
    trace = batched(crossing().trace(), {0: (0, 1), 1: (0, 1)})
    assert check_hazards(trace) == []


def test_different_tags_in_the_two_directions_are_no_matter() -> None:
    (finding,) = check_hazards(crossing(tags=(1, 2)).trace())
    assert finding.cause == "needs-capacity"


def unfinished() -> Story:
    story = crossing()
    del story.statuses[1]
    return story


def from_any_source() -> Story:
    story = Story(2)
    story[0].send(to=1)
    story[1].recv(None)
    for rank in range(2):
        story[rank].back(source=0)
        story[rank].finishes()
    return story


def broken_off() -> Story:
    story = Story(2)
    story[0].recv(1)
    story[0].raises_from_wait()
    for rank in range(2):
        story[rank].finishes()
    return story


def opaque() -> Story:
    story = crossing()
    story.events.append((0, ("Q", story.now, "0")))
    return story


@pytest.mark.parametrize(
    ("story", "why"),
    [
        (unfinished, "rank 1 did not finish"),
        (from_any_source, "rank 1 receives from any source, which NCCL cannot"),
        (broken_off, "rank 0's wait for recv was broken off"),
        (opaque, "group 0 has collectives that were not seen"),
    ],
)
def test_a_trace_that_tells_too_little_gives_nothing_and_says_why(
    story: Callable[[], Story], why: str
) -> None:
    trace = story().trace()
    assert why_not_analysed(trace) == why
    assert check_hazards(trace) == []


def test_a_run_whose_beginning_is_forgotten_is_not_analysed() -> None:
    trace = crossing().trace()
    del trace.ranks[0].ops[0]
    assert why_not_analysed(trace) == (
        "the run is too long: rank 0's first operations are not kept"
    )


def test_threads_of_one_rank_do_not_hold_each_other_up() -> None:
    story = Story(2)
    early = story[0].irecv(1)
    story[0].wait(early, thread=MAIN + 1)
    question = story[0].isend(1, tag=1)  # while the other thread waits
    story[1].recv(0, tag=1)
    story[1].back()
    story[1].send(0)
    story[1].back()
    story[0].back()
    story[0].wait(question)
    story[0].back()
    for rank in range(2):
        story[rank].finishes()
    (finding,) = check_hazards(story.trace())
    assert finding.cause == "queue-order"  # the queue does, all the same


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("float32", 4), ("bfloat16", 2), ("bool", 1), ("complex64", 8), ("float8_e4m3fn", 1), ("", 1)],
)
def test_the_size_of_an_element_follows_from_its_name(dtype: str, size: int) -> None:
    assert bytes_of(dtype) == size
