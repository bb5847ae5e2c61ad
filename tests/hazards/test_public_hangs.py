"""Programs after public reports: each finishes on gloo, and what NCCL makes of it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.findings import Finding
from harness.hazards import check_hazards
from harness.hazards.check import why_not_analysed
from harness.worlds import World
from tests.programs.nccl import communicators, ordering
from tests.worlds.running import line_of, run

pytestmark = pytest.mark.gloo

EAGER, LAZY = (
    ("nccl-eager capacity=0", "nccl-eager capacity=inf"),
    (
        "nccl-lazy capacity=0",
        "nccl-lazy capacity=inf",
    ),
)
AT_NONE = (EAGER[0], LAZY[0])


def hazards(world: World, function: Callable[..., Any], size: int) -> list[Finding]:
    for _ in range(6):  # of two threads that post at the same moment one may not be seen
        outcome = run(world, function, size)
        if why_not_analysed(outcome.trace) is None:
            break
    assert outcome.ending == "finished", outcome
    assert why_not_analysed(outcome.trace) is None
    return check_hazards(outcome.trace)


# the program, its ranks, the cause, under which conditions it hangs, which ranks, at which comments
HANGS: list[tuple[Any, int, str, tuple[str, ...], tuple[int, ...], tuple[str, ...]]] = [
    (ordering.criss_cross, 2, "needs-capacity", AT_NONE, (0, 1), ("stuck", "ahead")),
    (
        ordering.late_receive,
        2,
        "needs-capacity",
        AT_NONE,
        (0, 1),
        ("stuck 0", "stuck 1", "ahead 0", "ahead 1"),
    ),
    (ordering.unrelated_edges, 3, "queue-order", EAGER, (0, 1, 2), ("stuck", "ahead")),
    (
        ordering.early_receive,
        2,
        "queue-order",
        EAGER + LAZY,
        (0, 1),
        ("stuck 0", "stuck 1", "ahead"),
    ),
    (
        ordering.reduce_and_message_in_other_orders,
        2,
        "queue-order",
        EAGER + LAZY,
        (0, 1),
        ("stuck 0", "stuck 1", "ahead"),
    ),
    (ordering.by_payload_size, 2, "needs-capacity", AT_NONE, (0, 1), ("stuck", "ahead")),
    (
        communicators.ring_of_first_uses,
        3,
        "lazy-communicator",
        (EAGER[0], *LAZY),
        (0, 1, 2),
        ("stuck",),
    ),
    (communicators.skip_connection, 3, "batch-shape", LAZY, (1, 2), ("stuck",)),
    (communicators.batch_against_single_receives, 2, "batch-shape", LAZY, (0, 1), ("stuck",)),
    (communicators.part_of_a_batch, 2, "batch-shape", EAGER + LAZY, (0, 1), ("stuck 0",)),
    (
        communicators.batch_before_the_group_has_met,
        3,
        "lazy-communicator",
        LAZY,
        (1, 2),
        (),
    ),
]


@pytest.mark.parametrize(
    ("function", "size", "cause", "conditions", "ranks", "comments"),
    HANGS,
    ids=[case[0].__name__ for case in HANGS],
)
def test_a_program_that_finishes_on_gloo_would_hang_on_nccl(
    gloo: World,
    function: Callable[..., Any],
    size: int,
    cause: str,
    conditions: tuple[str, ...],
    ranks: tuple[int, ...],
    comments: tuple[str, ...],
) -> None:
    (finding,) = hazards(gloo, function, size)
    assert (finding.code, finding.severity, finding.cause) == ("nccl-hazard", "warning", cause)
    assert finding.details["semantics"] == {
        condition: "hangs" if condition in conditions else "finishes" for condition in EAGER + LAZY
    }
    assert finding.ranks == ranks
    lines = {op.line for op in finding.operations}
    assert {line_of(function, comment) for comment in comments} <= lines, finding
    assert {op.rank for op in finding.operations} == set(ranks), finding


TWINS = [
    (ordering.criss_cross_in_a_batch, 2),
    (ordering.receive_in_turn, 2),
    (ordering.unrelated_edges_sends_first, 3),
    (ordering.reduce_and_message_in_one_order, 2),
    (ordering.receive_after_the_send, 2),
    (ordering.two_threads_with_a_group_each, 2),
    (ordering.by_payload_size_in_batches, 2),
    (ordering.tags_in_order, 2),
    (communicators.ring_in_batches, 3),
    (communicators.skip_connection_in_batches, 3),
    (communicators.batch_against_batch, 2),
    (communicators.batches_apart, 2),
    (communicators.batch_after_the_group_has_met, 3),
]


@pytest.mark.parametrize(("function", "size"), TWINS, ids=[case[0].__name__ for case in TWINS])
def test_its_correct_twin_is_safe(gloo: World, function: Callable[..., Any], size: int) -> None:
    assert [f"{f.cause}: {f.message}" for f in hazards(gloo, function, size)] == []


def test_what_two_threads_post_is_held_against_the_queues_alone(gloo: World) -> None:
    (finding,) = hazards(gloo, ordering.two_threads_on_one_group, 2)
    assert (finding.cause, finding.ranks) == ("queue-order", (0, 1))
    lines = {op.line for op in finding.operations}
    assert line_of(ordering._from_two_threads, "ahead 0") in lines
    assert line_of(ordering._from_two_threads, "stuck 1") in lines


def test_messages_told_apart_by_tag_meet_the_wrong_receives(gloo: World) -> None:
    (finding,) = hazards(gloo, ordering.tags_swapped, 2)
    assert (finding.cause, finding.ranks) == ("tags-ignored", (0, 1))
    assert set(finding.details["semantics"].values()) == {"finishes"}
    assert [(op.tag, op.line) for op in finding.operations] == [
        (1, line_of(ordering.tags_swapped, "sent")),
        (2, line_of(ordering.tags_swapped, "taken")),
    ]
    assert "gets what was sent with tag 1" in finding.message


def test_the_buffer_space_that_would_do_is_told(gloo: World) -> None:
    (finding,) = hazards(gloo, ordering.by_payload_size, 2)
    assert finding.details["finishes_with_bytes"] == 4 * ordering.WIDTH * 4
