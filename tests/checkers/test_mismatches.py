"""Operations that met and disagree."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.mismatches import check_collectives, check_messages, check_skew
from harness.checkers.standing import standing_faults
from tests.checkers.builder import Story


def meeting(*parts: dict[str, Any]) -> Story:
    """One collective; each rank's part of it."""
    story = Story(len(parts))
    for rank, part in enumerate(parts):
        own: dict[str, Any] = {"kind": "all_reduce", "line": 10 + rank}
        story[rank].collective(**own | part)
    return story


@pytest.mark.parametrize(
    ("what", "parts"),
    [
        ("kind", [{}, {}, {"kind": "broadcast", "root": 0}]),
        ("root", [{"kind": "broadcast", "root": 0}] * 2 + [{"kind": "broadcast", "root": 1}]),
        ("element count", [{}, {}, {"shape": (5,)}]),
        ("dtype", [{}, {}, {"dtype": "int32"}]),
        ("reduce op", [{"reduce_op": "SUM"}, {"reduce_op": "SUM"}, {"reduce_op": "MAX"}]),
    ],
)
def test_the_rank_that_differs_is_named(what: str, parts: list[dict[str, Any]]) -> None:
    (finding,) = check_collectives(meeting(*parts).trace())
    assert (finding.code, finding.ranks) == ("collective-mismatch", (2,))
    assert finding.details["what"] == what
    assert f"disagree in {what}" in finding.message
    assert [op.line for op in finding.operations] == [10, 11, 12]


def test_where_there_is_no_majority_all_are_named() -> None:
    (finding,) = check_collectives(meeting({}, {"shape": (5,)}).trace())
    assert finding.ranks == (0, 1)


@pytest.mark.parametrize(
    "parts",
    [
        [{}, {}],
        [{"shape": (4, 2)}, {"shape": (8,)}],
        [
            {"kind": "all_to_all_single", "splits": True},
            {"kind": "all_to_all_single", "shape": (9,)},
        ],
        [{"kind": "all_gather"}, {"kind": "all_gather_into_tensor"}],
        [{"kind": "reduce_scatter"}, {"kind": "reduce_scatter_tensor"}],
        [{"kind": "all_to_all"}, {"kind": "all_to_all_single"}],
        [{"kind": "all_reduce"}, {"kind": "all_reduce_coalesced"}],
        [{"kind": "barrier", "dtype": ""}, {"kind": "barrier", "dtype": "", "line": 99}],
    ],
)
def test_parts_that_agree_in_what_matters_are_no_mismatch(parts: list[dict[str, Any]]) -> None:
    assert check_collectives(meeting(*parts).trace()) == []


def test_the_first_mismatch_by_the_clock_comes_first() -> None:
    story = Story(2)
    for shape in [(4,), (5,), (6,)]:
        story[0].collective("all_reduce", shape=shape)
        story[1].collective("all_reduce", shape=(5,))
    assert [f.details["number"] for f in check_collectives(story.trace())] == [0, 2]


def test_a_mismatch_is_there_from_the_moment_the_second_value_is_posted() -> None:
    story = Story(4)
    ops = [
        story[rank].collective("all_reduce", shape=(5 if rank == 3 else 4,))
        for rank in (0, 3, 1, 2)
    ]
    trace = story.trace()
    (finding,) = check_collectives(trace)
    assert finding.time_ns == trace.ranks[3].ops[ops[1]].posted_ns


def test_a_group_that_not_all_have_come_to_is_compared_as_far_as_they_have() -> None:
    story = Story(3)
    story[0].collective("all_reduce")
    story[1].collective("broadcast", root=0)
    (finding,) = check_collectives(story.trace())
    assert finding.ranks == (0, 1)


def message(send: dict[str, Any], receive: dict[str, Any]) -> Story:
    story = Story(2)
    story[0].send(1, line=1, **send)
    story[1].recv(0, line=2, **receive)
    return story


def test_another_element_count_is_an_error_that_says_what_follows() -> None:
    (finding,) = check_messages(message({"shape": (2, 4)}, {"shape": (32,)}).trace())
    assert (finding.code, finding.severity, finding.ranks) == ("shape-mismatch", "error", (0, 1))
    assert "keeps its old values" in finding.message
    assert finding.details == {"sent": [2, 4], "received": [32]}
    (finding,) = check_messages(message({"shape": (8,)}, {"shape": (4,)}).trace())
    assert "aborted" in finding.message
    assert [op.line for op in finding.operations] == [1, 2]


def test_another_dtype_is_an_error() -> None:
    (finding,) = check_messages(message({}, {"dtype": "int32"}).trace())
    assert (finding.code, finding.severity) == ("dtype-mismatch", "error")


def test_another_shape_of_as_many_elements_is_a_warning() -> None:
    (finding,) = check_messages(message({"shape": (8,)}, {"shape": (2, 4)}).trace())
    assert (finding.code, finding.severity) == ("shape-mismatch", "warning")


def test_messages_that_agree_are_no_mismatch() -> None:
    assert check_messages(message({}, {}).trace()) == []


def test_messages_that_never_met_are_not_compared() -> None:
    assert check_messages(message({"tag": 1}, {"shape": (9,)}).trace()) == []


def test_the_same_two_lines_are_one_finding_however_often_they_disagree() -> None:
    story = Story(2)
    for _ in range(3):
        story[0].send(1, line=1)
        story[1].recv(0, line=2, shape=(9,))
    assert len(check_messages(story.trace())) == 1


def test_only_errors_stand_whatever_the_ranks_do_next() -> None:
    assert standing_faults(message({"shape": (8,)}, {"shape": (2, 4)}).trace()) == []
    assert len(standing_faults(message({"shape": (8,)}, {"shape": (9,)}).trace())) == 1


def barriers(*lines: tuple[int, int]) -> Story:
    story = Story(2)
    for pair in lines:
        for rank, line in enumerate(pair):
            story[rank].barrier(line=line)
            story[rank].back()
    return story


def test_a_collective_that_pairs_two_places_which_both_ranks_come_to_is_skewed() -> None:
    (finding,) = check_skew(barriers((1, 2), (2, 1)).trace())
    assert (finding.code, finding.severity) == ("collective-skew", "warning")
    assert "program.py:1 on rank 0 with program.py:2 on rank 1" in finding.message


def test_a_rank_that_goes_on_alike_but_one_ahead_is_told_what_it_left_out() -> None:
    (finding,) = check_skew(barriers((1, 2), (2, 1), (1, 2), (2, 2)).trace())
    assert "let rank 1 come to the barrier at program.py:1 as rank 0 does" in finding.help


def test_a_skew_may_also_come_of_another_order() -> None:
    story = Story(2)
    for pair in ((1, 2), (2, 1)):
        for rank, line in enumerate(pair):
            story[rank].collective("all_reduce", line=line)
            story[rank].back()
    (finding,) = check_skew(story.trace())
    assert "look for an all_reduce that one of ranks 0 and 1 leaves out" in finding.help
    assert "another order" in finding.help


def test_a_leader_and_a_follower_at_lines_of_their_own_are_not_skewed() -> None:
    assert check_skew(barriers((1, 2), (1, 2)).trace()) == []


def test_the_same_line_on_all_ranks_is_not_skewed() -> None:
    assert check_skew(barriers((1, 1), (2, 2)).trace()) == []
