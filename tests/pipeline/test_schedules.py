import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.actions import Action, Kind
from pipeline.plan import Plan, build_plan, peak_in_flight, validate
from pipeline.schedules import SCHEDULES, get_schedule
from pipeline.timing import simulate, timeline
from tests.pipeline.strategies import chunk_counts, names, plans, worlds


@given(plans())
def test_every_stage_does_every_microbatch_exactly_once(plan: Plan) -> None:
    for rank, row in enumerate(plan.rows):
        for kind in (Kind.F, Kind.B):
            done = sorted(a.microbatch for a in row if a.kind is kind and a.stage == rank)
            assert done == list(range(plan.chunks))
        assert len(row) == 2 * plan.chunks


@given(plans())
def test_every_schedule_gives_a_valid_plan(plan: Plan) -> None:
    validate(plan)


@given(plans())
def test_no_action_runs_before_its_cause(plan: Plan) -> None:
    starts = {
        action: start
        for row, times in zip(plan.rows, simulate(plan).starts, strict=True)
        for action, start in zip(row, times, strict=True)
    }
    for action, start in starts.items():
        s, m = action.stage, action.microbatch
        if action.kind is Kind.F and s > 0:
            assert starts[Action(s - 1, Kind.F, m)] < start
        if action.kind is Kind.B:
            assert starts[Action(s, Kind.F, m)] < start
            if s < plan.stages - 1:
                assert starts[Action(s + 1, Kind.B, m)] < start


@given(plans())
def test_no_rank_has_more_in_flight_than_its_schedule_promises(plan: Plan) -> None:
    bound = SCHEDULES[plan.schedule].in_flight_bound
    promised = tuple(bound(rank, plan.world, plan.chunks) for rank in range(plan.world))
    assert peak_in_flight(plan) == promised  # and no fewer: the bound is tight


@given(names, worlds, chunk_counts, st.integers(1, 9), st.integers(1, 9))
def test_idle_time_is_what_the_schedule_s_formula_says(
    name: str, world: int, chunks: int, forward: int, backward: int
) -> None:
    timing = simulate(build_plan(name, world, chunks), {Kind.F: forward, Kind.B: backward})
    assert timing.idle == (SCHEDULES[name].idle(world, chunks, forward, backward),) * world


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
