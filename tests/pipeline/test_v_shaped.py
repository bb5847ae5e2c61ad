"""V-Half and V-Min: what their building blocks promise, and what reordering makes of it."""

from collections.abc import Iterator

import pytest

from pipeline.actions import Action
from pipeline.plan import Plan, build_plan, peak_in_flight, validate
from pipeline.plan_timing import plan_timing, with_defaults
from pipeline.schedules import get_schedule
from pipeline.schedules.building_block import PASSES, Block, repeated
from pipeline.schedules.schedule import v_shaped
from pipeline.schedules.v_shaped import half_block, min_block

BLOCKS = {"v-half": half_block, "v-min": min_block}
UNITS = 6  # of one microbatch on one rank: F, I and W of two stages


def pattern(block: Block, world: int, chunks: int) -> Plan:
    rows = tuple(tuple(repeated_actions(block, rank, world, chunks)) for rank in range(world))
    return Plan("pattern", world, chunks, rows, v_shaped(world))


def repeated_actions(block: Block, rank: int, world: int, chunks: int) -> Iterator[Action]:
    done = [0] * len(PASSES)
    for key in repeated(block, rank, world, chunks):
        out, kind = PASSES[key]
        yield Action(rank if out else 2 * world - 1 - rank, kind, done[key])
        done[key] += 1


def idle(name: str, world: int, chunks: int) -> float:
    times = set(plan_timing(build_plan(name, world, chunks), {}).idle)
    assert len(times) == 1
    return times.pop()


@pytest.mark.parametrize("name", BLOCKS)
def test_a_building_block_repeats_without_two_passes_meeting(name: str) -> None:
    for world in range(1, 33):
        for rank in range(world):
            assert len({start % 6 for start in BLOCKS[name](rank, world)}) == 4


@pytest.mark.parametrize("name", BLOCKS)
def test_reordering_adds_neither_memory_nor_time(name: str) -> None:
    for world in range(1, 9):
        for chunks in (1, 2, world, 2 * world, 24):
            before, after = pattern(BLOCKS[name], world, chunks), build_plan(name, world, chunks)
            validate(before)
            assert max(peak_in_flight(after)) <= max(peak_in_flight(before))
            assert plan_timing(after, {}).makespan <= plan_timing(before, {}).makespan


@pytest.mark.parametrize("name", BLOCKS)
def test_the_promises_hold_far_beyond_the_shapes_that_are_drawn(name: str) -> None:
    schedule = get_schedule(name)
    for world, chunks in ((9, 9), (16, 16), (31, 31), (32, 40)):
        plan = build_plan(name, world, chunks)
        promised = schedule.idle(world, chunks, with_defaults({}))
        assert plan_timing(plan, {}).idle == (promised,) * world
        assert max(peak_in_flight(plan)) == schedule.in_flight_bound(0, world, chunks)


@pytest.mark.parametrize(
    ("name", "peaks"),
    [("v-half", (2, 2, 3, 3, 4, 4, 5)), ("v-min", (2, 2, 2, 3, 3, 3, 4))],
)
def test_the_peaks_are_the_published_ones(name: str, peaks: tuple[int, ...]) -> None:
    """(p + 2) // 2 and (p + 4) // 3 microbatches of a whole rank: two stage-chunks each.

    The authors' table, huggingface.co/spaces/sail/pipeline-parallelism-with-controllable-memory.
    """
    for world, most in zip(range(2, 9), peaks, strict=True):
        assert most == ((world + 2) // 2 if name == "v-half" else (world + 4) // 3)
        assert max(peak_in_flight(build_plan(name, world, 3 * world))) == 2 * most


@pytest.mark.parametrize(("name", "of_1f1b"), [("v-half", 1 / 2), ("v-min", 2 / 3)])
def test_the_bubble_is_below_the_published_rate(name: str, of_1f1b: float) -> None:
    """About p/2m and 2p/3m of the time that is not idle: the same table, at F = I = W."""
    for world in range(1, 33):
        for chunks in (max(3, world), 2 * world + 1, 10 * world):
            units = get_schedule(name).idle(world, chunks, with_defaults({}))
            assert units is not None
            assert units / (UNITS * chunks) < of_1f1b * world / chunks


@pytest.mark.parametrize(
    ("name", "theirs"),
    [("v-half", (1, 5, 5, 11, 11, 17, 17)), ("v-min", (3, 5, 11, 15, 17, 23, 27))],
)
def test_no_rank_is_idle_longer_than_in_the_authors_plans(
    name: str, theirs: tuple[int, ...]
) -> None:
    """What zbv_greedy of their code comes to for 2 to 8 ranks, 3 microbatches a rank, F = I = W."""
    ours = [idle(name, world, 3 * world) for world in range(2, 9)]
    for less in (ours, [idle(name, world, 32) for world in range(2, 9)]):
        assert all(mine <= other for mine, other in zip(less, theirs, strict=True))
    shorter = [world for world in range(2, 9) if ours[world - 2] < theirs[world - 2]]
    assert shorter == ([] if name == "v-half" else [2, 5, 8])


def test_less_memory_than_zbv_costs_more_idle_time_but_less_than_1f1b_s() -> None:
    for world, chunks in ((4, 8), (8, 16), (8, 32)):
        half, least, zbv = (idle(name, world, chunks) for name in (*BLOCKS, "zbv"))
        assert zbv < half < least < 2 * idle("1f1b", world, chunks)


@pytest.mark.parametrize("name", BLOCKS)
def test_nothing_is_promised_of_other_costs_or_of_too_few_microbatches(name: str) -> None:
    promised = get_schedule(name).idle
    assert promised(4, 3, with_defaults({})) is None
    kinds = list(with_defaults({}))[:3]
    assert all(promised(4, 8, with_defaults({kind: 2.0})) is None for kind in kinds)
