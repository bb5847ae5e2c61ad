from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.actions import Kind
from pipeline.plan import Plan, build_plan, peak_in_flight, validate
from pipeline.plan_timing import plan_timing, with_defaults
from pipeline.schedules import RUNNABLE, SCHEDULES, get_schedule
from pipeline.timing import simulate, timeline
from tests.pipeline.strategies import FULL_ONE_STAGE, accepted, plans


@given(plans())
def test_every_stage_does_every_microbatch_of_its_direction_exactly_once(plan: Plan) -> None:
    done = Counter(part for row in plan.rows for action in row for part in action.parts)
    assert set(done.values()) == {1}
    for stage in range(plan.stages):
        by_kind = {
            kind: {part.microbatch for part in done if (part.stage, part.kind) == (stage, kind)}
            for kind in (Kind.F, Kind.B, Kind.I, Kind.W)
        }
        everything = set(plan.microbatches(stage))
        assert by_kind[Kind.F] == everything
        assert by_kind[Kind.I] == by_kind[Kind.W]
        assert by_kind[Kind.B] | by_kind[Kind.I] == (set() if plan.forward_only else everything)


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_gives_a_valid_plan_at_every_shape(name: str) -> None:
    for world, chunks in accepted(name):
        validate(build_plan(name, world, chunks))


@pytest.mark.parametrize("name", SCHEDULES)
def test_what_a_schedule_says_of_itself_is_so(name: str) -> None:
    schedule, plan = SCHEDULES[name], build_plan(name, 4, 8)
    kinds = {part.kind for row in plan.rows for action in row for part in action.parts}
    assert schedule.splits_backward is bool(kinds & {Kind.I, Kind.W})
    assert schedule.forward_only is (kinds == {Kind.F})
    assert (name in RUNNABLE) is (name != "forward-only")
    assert sorted(plan.placement) == sorted(list(range(4)) * (plan.stages // 4))


@given(plans())
def test_no_action_runs_before_its_cause(plan: Plan) -> None:
    spans = {
        (part.stage, part.kind, part.microbatch): span
        for row, times in zip(plan.rows, plan_timing(plan, {}).start, strict=True)
        for action, span in zip(row, times, strict=True)
        for part in action.parts
    }
    depth = plan.stages // plan.directions

    def end(stage: int, microbatch: int, *kinds: Kind) -> float:
        return next(spans[key][1] for kind in kinds if (key := (stage, kind, microbatch)) in spans)

    for (s, kind, m), (start, _) in spans.items():
        if kind is Kind.F and s % depth:
            assert end(s - 1, m, Kind.F) <= start
        if kind in (Kind.B, Kind.I):
            assert end(s, m, Kind.F) <= start
            if (s + 1) % depth:
                assert end(s + 1, m, Kind.B, Kind.I) <= start
        if kind is Kind.W:
            assert end(s, m, Kind.I) <= start


@given(plans())
def test_no_rank_has_more_in_flight_than_its_schedule_promises(plan: Plan) -> None:
    bound = SCHEDULES[plan.schedule].in_flight_bound
    promised = tuple(bound(rank, plan.world, plan.chunks) for rank in range(plan.world))
    peaks = peak_in_flight(plan)
    assert all(peak <= most for peak, most in zip(peaks, promised, strict=True))
    assert max(peaks) == max(promised)  # and no fewer: the bound is tight
    if plan.schedule in FULL_ONE_STAGE or plan.schedule == "interleaved":
        assert peaks == promised


@given(plans(), st.tuples(*[st.integers(1, 9)] * 4))
def test_idle_time_is_what_the_schedule_s_formula_says(
    plan: Plan, drawn: tuple[int, int, int, int]
) -> None:
    """At any costs at which it promises one; equal costs are among what every one promises."""
    for f, i, w, b in (drawn, (drawn[0],) * 4, (max(drawn), max(drawn), min(drawn), 0)):
        costs: dict[Kind, float] = {Kind.F: f, Kind.I: i, Kind.W: w, Kind.B: b or i + w}
        if plan.schedule.startswith("dualpipe"):
            del costs[Kind.B]
        promised = SCHEDULES[plan.schedule].idle(plan.world, plan.chunks, with_defaults(costs))
        if promised is not None:
            assert plan_timing(plan, costs).idle == (promised,) * plan.world


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_formula_is_promised_for_a_full_pipeline_at_equal_costs(name: str) -> None:
    for world, chunks in ((4, 8), (8, 16)):
        assert SCHEDULES[name].idle(world, chunks, with_defaults({})) is not None


@pytest.mark.parametrize(
    ("world", "chunks", "makespan", "idle", "bubble"),
    [
        (2, 4, 10, 2, 0.2),
        (4, 1, 8, 6, 0.75),
        (4, 2, 10, 6, 0.6),
        (4, 4, 14, 6, 0.4286),
        (4, 8, 22, 6, 0.2727),
        (8, 16, 46, 14, 0.3043),
        (8, 32, 78, 14, 0.1795),
    ],
)
@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
def test_gpipe_and_1f1b_have_the_published_bubble(
    name: str, world: int, chunks: int, makespan: int, idle: int, bubble: float
) -> None:
    timing = simulate(build_plan(name, world, chunks))
    assert (timing.makespan, set(timing.idle)) == (makespan, {idle})
    assert round(timing.bubble, 4) == bubble


@pytest.mark.parametrize(
    ("world", "chunks", "peaks"),
    [(2, 4, (2, 1)), (4, 1, (1, 1, 1, 1)), (4, 2, (2, 2, 2, 1)), (4, 8, (4, 3, 2, 1))],
)
def test_1f1b_holds_fewer_activations_the_later_the_rank(
    world: int, chunks: int, peaks: tuple[int, ...]
) -> None:
    assert peak_in_flight(build_plan("1f1b", world, chunks)) == peaks


def test_1f1b_holds_half_of_gpipe_s_activations_in_the_course_s_example() -> None:
    assert max(peak_in_flight(build_plan("1f1b", 4, 8))) == 4
    assert max(peak_in_flight(build_plan("gpipe", 4, 8))) == 8


def test_fewer_chunks_than_stages_shorten_the_warmup() -> None:
    assert [str(action) for action in build_plan("1f1b", 4, 1).rows[0]] == ["0F0", "0B0"]


def test_1f1b_drawn_against_time() -> None:
    assert timeline(build_plan("1f1b", 3, 4)).splitlines() == [
        "step    0    1    2    3    4    5    6    7    8    9    10   11",
        "rank 0  0F0  0F1  0F2            0B0  0F3  0B1       0B2       0B3",
        "rank 1       1F0  1F1       1B0  1F2  1B1  1F3  1B2       1B3",
        "rank 2            2F0  2B0  2F1  2B1  2F2  2B2  2F3  2B3",
    ]


def test_gpipe_drawn_against_time() -> None:
    assert timeline(build_plan("gpipe", 2, 2)).splitlines() == [
        "step    0    1    2    3    4    5",
        "rank 0  0F0  0F1            0B0  0B1",
        "rank 1       1F0  1F1  1B0  1B1",
    ]


def test_naive_drawn_against_time() -> None:
    assert timeline(build_plan("naive", 2, 1)).splitlines() == [
        "step    0    1    2    3",
        "rank 0  0F0            0B0",
        "rank 1       1F0  1B0",
    ]


def test_an_unknown_schedule_is_refused_with_the_known_names() -> None:
    with pytest.raises(ValueError, match="'zigzag'; known: naive, gpipe, 1f1b"):
        get_schedule("zigzag")
