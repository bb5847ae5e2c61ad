"""The schedules that torch has too, against torch's own rows, and the figures of FACTS."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.actions import Kind
from pipeline.plan import Plan, build_plan, peak_in_flight, validate
from pipeline.plan_timing import plan_timing
from pipeline.schedules import SCHEDULES
from pipeline.schedules.interleaved import interleaved_with
from pipeline.tables import PAPERS, Published, compare, formulas, main, torch_rows
from tests.pipeline.strategies import accepted

Rows = list[list[str]]


def rows_of_torch(name: str, world: int, chunks: int, per_rank: int) -> Rows:
    try:
        return torch_rows(name, world, chunks, per_rank)
    except LookupError as error:
        pytest.skip(str(error))


def rows_of(plan: Plan) -> Rows:
    return [[str(action) for action in row] for row in plan.rows]


def even_rounds(world: int, chunks: int) -> bool:
    """Whether torch's interleaved schedules accept the shape."""
    return chunks % max(1, chunks // world) == 0


@pytest.mark.parametrize(
    ("name", "theirs", "per_rank", "accepts"),
    [
        ("interleaved", "ScheduleInterleaved1F1B", 2, even_rounds),
        ("zb-h1", "ScheduleInterleavedZeroBubble", 1, even_rounds),
        ("zbv", "ScheduleZBVZeroBubble", 2, lambda world, chunks: True),
        ("dualpipev", "ScheduleDualPipeV", 2, lambda world, chunks: True),
    ],
)
def test_rows_are_torch_s_action_by_action(
    name: str, theirs: str, per_rank: int, accepts: Callable[[int, int], bool]
) -> None:
    shapes = [shape for shape in accepted(name) if accepts(*shape)]
    assert len(shapes) > 100
    for world, chunks in shapes:
        assert rows_of(build_plan(name, world, chunks)) == rows_of_torch(
            theirs, world, chunks, per_rank
        )


@given(st.integers(1, 5), st.integers(1, 8), st.integers(1, 32))
def test_any_number_of_stages_a_rank_is_interleaved_as_torch_does(
    per_rank: int, world: int, chunks: int
) -> None:
    plan = build_plan(interleaved_with(per_rank), world, chunks)
    validate(plan)
    if even_rounds(world, chunks):
        assert rows_of(plan) == rows_of_torch("ScheduleInterleaved1F1B", world, chunks, per_rank)


def test_no_stages_on_a_rank_are_refused() -> None:
    with pytest.raises(ValueError, match="stages_per_rank must be at least 1: got 0"):
        interleaved_with(0)


def figures(plan: Plan) -> tuple[float, float, int]:
    """Return (makespan, idle, peak on rank 0) at F = I = W = 1 per stage-chunk."""
    timing = plan_timing(plan, {})
    assert len(set(timing.idle)) == 1
    return timing.makespan, timing.idle[0], timing.peak_in_flight[0]


@pytest.mark.parametrize(
    ("name", "small", "large"),
    [  # P4 M8 and P8 M16
        ("1f1b", (33, 9, 4), (69, 21, 8)),
        ("interleaved", (57, 9, 11), (117, 21, 23)),
        ("zb-h1", (27, 3, 4), (55, 7, 8)),
        ("zb-h2", (27, 3, 7), (55, 7, 15)),
        ("zbv", (51, 3, 8), (103, 7, 16)),
        ("v-half", (53, 5, 6), (113, 17, 10)),
        ("v-min", (59, 11, 4), (122, 26, 8)),
        ("dualpipe", (26, 2, 5), (54, 6, 9)),
        ("dualpipev", (54, 6, 9), (110, 14, 17)),
        ("forward-only", (11, 3, 8), (23, 7, 16)),
    ],
)
def test_makespan_idle_time_and_peak(
    name: str, small: tuple[int, int, int], large: tuple[int, int, int]
) -> None:
    found = [figures(build_plan(name, *shape)) for shape in ((4, 8), (8, 16))]
    print(name, *found)
    assert found == [small, large]


@pytest.mark.parametrize(("shape", "figure"), [((4, 8), (51, 3, 8)), ((8, 16), (103, 7, 16))])
def test_torch_s_interleaved_zero_bubble_read_as_a_plan(
    shape: tuple[int, int], figure: tuple[int, int, int]
) -> None:
    """No schedule here has these rows; timing and validation have to hold for them as well."""
    rows = rows_of_torch("ScheduleInterleavedZeroBubble", *shape, 2)
    plan = Plan.from_csv("\n".join(map(",".join, rows)))
    validate(plan)
    assert figures(plan) == figure


def test_zb_h2_has_no_idle_time_between_first_and_last_action() -> None:
    for world, chunks in ((4, 8), (8, 16)):
        plan = build_plan("zb-h2", world, chunks)
        for times in plan_timing(plan, {}).start:
            assert all(end == start for (_, end), (start, _) in pairwise(times))


@pytest.mark.parametrize(("name", "depth"), [("zb-h1", 1), ("zb-h2", 2)])
def test_zero_bubble_holds_what_table_1_says(name: str, depth: int) -> None:
    """Of worker i from 1, ZB-H1: (p-i+1) M_B + (i-1) M_W, where M_W is kept from I to W."""
    for world, chunks in ((4, 8), (8, 16), (8, 32)):
        plan = build_plan(name, world, chunks)
        until_input = replace(
            plan,
            rows=tuple(
                tuple(
                    replace(a, kind=Kind.B) if a.kind is Kind.I else a
                    for a in row
                    if a.kind is not Kind.W
                )
                for row in plan.rows
            ),
        )
        whole = peak_in_flight(until_input)
        assert whole == tuple(depth * (world - 1 - rank) + 1 for rank in range(world))
        halves = [all_of_it - b for all_of_it, b in zip(peak_in_flight(plan), whole, strict=True)]
        assert halves == [depth * rank for rank in range(world)]


def test_interleaving_holds_what_the_paper_says() -> None:
    for v, p in ((2, 4), (2, 8), (4, 4)):
        peaks = peak_in_flight(build_plan(interleaved_with(v), p, 4 * p))
        assert peaks == tuple(2 * (p - r - 1) + (v - 1) * p + 1 for r in range(p))


def test_dualpipe_is_dualpipe_v_twice_over() -> None:
    """Each rank does what DualPipeV's rank in its half does, and so does its mirror image."""
    dual, half = build_plan("dualpipe", 8, 16), build_plan("dualpipev", 4, 8)
    for rank in range(4):
        for mirrored in (rank, 7 - rank):
            kinds = [action.kind for action in dual.rows[mirrored]]
            assert kinds == [action.kind for action in half.rows[rank]]
    assert (dual.placement, dual.directions) == ((*range(8), *reversed(range(8))), 2)


def test_dualpipe_goes_both_ways() -> None:
    assert [" ".join(row) for row in rows_of(build_plan("dualpipe", 2, 4))] == [
        "0F0 3F2 0F1 3B2 (3F3;0B0)OVERLAP_F_B 3B3 0I1 0W1",
        "2F2 1F0 2F3 1B0 (1F1;2B2)OVERLAP_F_B 1B1 2I3 2W3",
    ]


def test_dualpipe_v_comes_back_the_way_it_went() -> None:
    assert [" ".join(row) for row in rows_of(build_plan("dualpipev", 1, 3))] == [
        "0F0 1F0 0F1 1B0 (1F1;0B0)OVERLAP_F_B (0F2;1B1)OVERLAP_F_B (1F2;0B1)OVERLAP_F_B "
        "1B2 0I2 0W2",
    ]


def test_one_command_prints_every_published_figure_as_it_is() -> None:
    printed: list[str] = []
    assert main(printed.append) == 0
    assert sum(line.endswith("as published") for line in printed) == 22
    assert len(printed) == 3 + 22 + len(SCHEDULES)


def test_a_figure_that_is_not_as_published_is_told() -> None:
    wrong = replace(PAPERS[0], makespan=PAPERS[0].makespan + 1)
    line, same = compare(wrong, {Kind.F: 1.0, Kind.B: 1.0})
    assert not same
    assert line.endswith("PUBLISHED: makespan 11, idle 2, peaks 4,4")


def test_a_class_that_this_torch_lacks_is_said_and_not_compared() -> None:
    line, same = compare(Published("torch Zigzag", 4, 8, 1, 1, (1,)), {})
    assert same
    assert "not compared: this torch has no ScheduleZigzag" in line


def test_promises_are_counted_where_they_hold() -> None:
    assert all(same for _, same in formulas((2, 4), (8,)))
