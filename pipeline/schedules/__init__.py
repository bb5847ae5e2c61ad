"""The schedules by name. Each is a generator of one rank's compute actions, and nothing else."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pipeline.actions import Action
from pipeline.schedules.gpipe import gpipe
from pipeline.schedules.naive import naive
from pipeline.schedules.one_f_one_b import one_f_one_b

__all__ = ["SCHEDULES", "Schedule", "get_schedule"]


@dataclass(frozen=True)
class Schedule:
    """A rule that orders a rank's actions, with what its source promises of it."""

    name: str
    generate: Callable[[int, int, int], Iterator[Action]]
    """(rank, world, chunks) → that rank's compute actions, in order."""
    source: str
    """The paper that describes it."""
    in_flight_bound: Callable[[int, int, int], int]
    """(rank, world, chunks) → the most microbatches in flight on that rank."""
    idle: Callable[[int, int, float, float], float]
    """(world, chunks, F, B) → idle time per rank, when every stage costs F and B."""


SCHEDULES = {
    schedule.name: schedule
    for schedule in (
        Schedule(
            name="naive",
            generate=naive,
            source="model parallelism without a pipeline; the formulas are derived",
            in_flight_bound=lambda rank, world, chunks: 1,
            idle=lambda world, chunks, f, b: chunks * (world - 1) * (f + b),
        ),
        Schedule(
            name="gpipe",
            generate=gpipe,
            source="GPipe, arXiv 1811.06965, section 2.3",
            in_flight_bound=lambda rank, world, chunks: chunks,
            idle=lambda world, chunks, f, b: (world - 1) * (f + b),
        ),
        Schedule(
            name="1f1b",
            generate=one_f_one_b,
            source="PipeDream-flush, arXiv 2006.09503, section 3.2",
            in_flight_bound=lambda rank, world, chunks: min(chunks, world - rank),
            idle=lambda world, chunks, f, b: (world - 1) * (f + b),
        ),
    )
}


def get_schedule(name: str) -> Schedule:
    """Look a schedule up; ValueError lists the known names."""
    if name not in SCHEDULES:
        raise ValueError(f"unknown schedule {name!r}; known: {', '.join(SCHEDULES)}")
    return SCHEDULES[name]
