"""V-Half and V-Min: what their building blocks promise, and reordering keeps."""

import pytest

from pipeline.plan import Plan, build_plan, peak_in_flight, validate
from pipeline.plan_timing import plan_timing
from pipeline.schedules import get_schedule
from pipeline.schedules.schedule import v_shaped
from pipeline.schedules.v_shaped import Block, half_block, min_block, repeated

BLOCKS = {"v-half": half_block, "v-min": min_block}


def pattern(block: Block, world: int, chunks: int) -> Plan:
    rows = tuple(tuple(repeated(block, rank, world, chunks)) for rank in range(world))
    return Plan("pattern", world, chunks, rows, v_shaped(world))


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


def test_they_keep_about_a_half_and_a_third_of_what_1f1b_does() -> None:
    """1F1B's first rank keeps p whole stages, which are 2p of these stage-chunks."""
    for world in range(2, 33):
        half, third = (get_schedule(name).in_flight_bound(0, world, 10**6) for name in BLOCKS)
        assert world <= half <= world + 2
        assert 2 * world / 3 <= third <= 2 * world / 3 + 8 / 3


def test_less_memory_than_zbv_costs_more_idle_time_but_less_than_1f1b_s() -> None:
    for world, chunks in ((4, 8), (8, 16), (8, 32)):
        idle = {name: plan_timing(build_plan(name, world, chunks), {}).idle[0] for name in BLOCKS}
        zbv = plan_timing(build_plan("zbv", world, chunks), {}).idle[0]
        one_f_one_b = 2 * plan_timing(build_plan("1f1b", world, chunks), {}).idle[0]
        assert zbv < idle["v-half"] < idle["v-min"] < one_f_one_b
