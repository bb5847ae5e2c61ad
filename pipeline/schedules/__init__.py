"""The schedules by name. Each is a generator of one rank's compute actions, and nothing else."""

from pipeline.schedules.dualpipe import DUALPIPE, DUALPIPE_V
from pipeline.schedules.forward_only import FORWARD_ONLY
from pipeline.schedules.gpipe import GPIPE
from pipeline.schedules.interleaved import INTERLEAVED
from pipeline.schedules.naive import NAIVE
from pipeline.schedules.one_f_one_b import ONE_F_ONE_B
from pipeline.schedules.schedule import Costs, Schedule
from pipeline.schedules.v_shaped import V_HALF, V_MIN, ZB_V
from pipeline.schedules.zero_bubble import ZB_H1, ZB_H2

__all__ = ["RUNNABLE", "SCHEDULES", "Costs", "Schedule", "get_schedule"]

SCHEDULES = {
    schedule.name: schedule
    for schedule in (
        NAIVE,
        GPIPE,
        ONE_F_ONE_B,
        INTERLEAVED,
        ZB_H1,
        ZB_H2,
        ZB_V,
        V_HALF,
        V_MIN,
        DUALPIPE,
        DUALPIPE_V,
        FORWARD_ONLY,
    )
}
RUNNABLE = tuple(name for name, schedule in SCHEDULES.items() if schedule.runs)
"""The names of those that the executor runs."""


def get_schedule(name: str) -> Schedule:
    """Look a schedule up; ValueError lists the known names."""
    if name not in SCHEDULES:
        raise ValueError(f"unknown schedule {name!r}; known: {', '.join(SCHEDULES)}")
    return SCHEDULES[name]
