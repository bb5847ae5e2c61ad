"""The published figures beside those of the plans here: `python -m pipeline.tables`.

Every figure is computed from the plan when the command runs. It exits 1 where one is not as
published.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pipeline.actions import Kind
from pipeline.plan import Plan, build_plan
from pipeline.plan_timing import plan_timing, with_defaults
from pipeline.schedules import SCHEDULES

EQUAL = {Kind.F: 1.0, Kind.B: 1.0}
"""F and B of the same length."""
SPLIT = {Kind.F: 1.0, Kind.I: 1.0, Kind.W: 1.0, Kind.B: 2.0}
"""F, I and W of the same length, so that a full backward takes two."""


@dataclass(frozen=True)
class Published:
    """One row of a table: of a schedule at a shape, what its source says."""

    schedule: str
    world: int
    chunks: int
    makespan: float
    idle: float
    """Of each rank."""
    peaks: tuple[int, ...]
    """In flight, of the first ranks; or of all."""

    @property
    def title(self) -> str:
        """The schedule and its shape, in columns."""
        return f"{self.schedule:<29} P{self.world:<2} M{self.chunks:<3}"


PAPERS = tuple(
    Published(name, world, chunks, makespan, idle, peaks if name == "1f1b" else (chunks,) * world)
    for world, chunks, makespan, idle, peaks in (
        (2, 4, 10, 2, (2, 1)),
        (4, 1, 8, 6, (1, 1, 1, 1)),
        (4, 2, 10, 6, (2, 2, 2, 1)),
        (4, 4, 14, 6, (4, 3, 2, 1)),
        (4, 8, 22, 6, (4, 3, 2, 1)),
        (8, 16, 46, 14, (8, 7, 6, 5, 4, 3, 2, 1)),
        (8, 32, 78, 14, (8, 7, 6, 5, 4, 3, 2, 1)),
    )
    for name in ("gpipe", "1f1b")
)
"""GPipe's and PipeDream-Flush's, at F = B = 1."""

STAGED = tuple(
    Published(name, world, chunks, *figures)
    for world, chunks, rows in (
        (
            4,
            8,
            {
                "interleaved": (57, 9, (11,)),
                "torch InterleavedZeroBubble": (51, 3, (8,)),
                "zbv": (51, 3, (8,)),
                "dualpipev": (54, 6, (9,)),
            },
        ),
        (
            8,
            16,
            {
                "interleaved": (117, 21, (23,)),
                "torch InterleavedZeroBubble": (103, 7, (16,)),
                "zbv": (103, 7, (16,)),
                "dualpipev": (110, 14, (17,)),
            },
        ),
    )
    for name, figures in rows.items()
)
"""Two stages a rank, as in torch's own schedules, at F = I = W = 1 of each stage."""


def torch_rows(name: str, world: int, chunks: int, per_rank: int) -> list[list[str]]:
    """Return the rows of one of torch's schedule classes, which it makes without stages or a group.

    LookupError where this version of torch has no such class, or makes its rows in another way.
    """
    import torch.distributed.pipelining.schedules as theirs

    try:
        schedule = object.__new__(getattr(theirs, name))
        schedule.pp_group_size = world
        schedule.n_local_stages = per_rank
        schedule._n_microbatches = chunks
        schedule._num_stages = schedule.num_stages = world * per_rank
        schedule.number_of_rounds = max(1, chunks // world)
        schedule.microbatches_per_round = chunks // schedule.number_of_rounds
        return [
            [str(action) for action in schedule._calculate_single_rank_operations(rank) if action]
            for rank in range(world)
        ]
    except AttributeError as error:
        raise LookupError(f"this torch has no {name} with such rows: {error}") from None


def plan_of(row: Published) -> Plan:
    """Return the plan that a row is about; LookupError for one that this torch lacks."""
    if not row.schedule.startswith("torch "):
        return build_plan(row.schedule, row.world, row.chunks)
    name = f"Schedule{row.schedule.removeprefix('torch ')}"
    rows = torch_rows(name, row.world, row.chunks, 2)
    return Plan.from_csv("\n".join(map(",".join, rows)), row.schedule)


def compare(row: Published, costs: dict[Kind, float]) -> tuple[str, bool]:
    """Return a line with the figures of a row's plan, and whether they are the published ones."""
    try:
        plan = plan_of(row)
    except LookupError as error:
        return f"{row.title}  not compared: {error}", True
    timing = plan_timing(plan, costs)
    found = timing.makespan, timing.idle, timing.peak_in_flight[: len(row.peaks)]
    same = found == (row.makespan, (row.idle,) * row.world, row.peaks)
    idle = sum(timing.idle) / row.world
    peaks = ",".join(map(str, timing.peak_in_flight))
    line = (
        f"{row.title}  makespan {timing.makespan:<4g} idle {idle:<3g} "
        f"of total {idle / timing.makespan:.4f}  peaks {peaks}"
    )
    if same:
        return f"{line}  as published", True
    told = f"makespan {row.makespan:g}, idle {row.idle:g}, peaks {','.join(map(str, row.peaks))}"
    return f"{line}  PUBLISHED: {told}", False


def formulas(worlds: Sequence[int], chunks: Sequence[int]) -> Iterator[tuple[str, bool]]:
    """Compare every schedule's promises with its plans; yield a line for each schedule."""
    costs = with_defaults(SPLIT)
    for name, schedule in SCHEDULES.items():
        shapes = idle = kept = promised = 0
        for world in worlds:
            for count in chunks:
                if schedule.refusal(world, count):
                    continue
                shapes += 1
                timing = plan_timing(build_plan(schedule, world, count), SPLIT)
                bound = [schedule.in_flight_bound(rank, world, count) for rank in range(world)]
                kept += all(p <= b for p, b in zip(timing.peak_in_flight, bound, strict=True))
                if (formula := schedule.idle(world, count, costs)) is not None:
                    promised += 1
                    idle += all(abs(rank - formula) < 1e-9 for rank in timing.idle)
        line = (
            f"{name:<13} in flight within its bound at {kept} of {shapes} shapes, "
            f"idle as its formula says at {idle} of {promised}   {schedule.source}"
        )
        yield line, (kept, idle) == (shapes, promised)


def main(out: Callable[[str], None] = print) -> int:
    """Print all of it; return 0, or 1 where a figure is not as published."""
    right = True
    for title, rows, costs in (
        ("GPipe and 1F1B, F = B = 1", PAPERS, EQUAL),
        ("two stages a rank, F = I = W = 1 of each stage", STAGED, SPLIT),
    ):
        out(title)
        for row in rows:
            line, same = compare(row, costs)
            right &= same
            out(f"  {line}")
    out("promises, F = I = W = 1, worlds 1..8, chunks 1..16 and 32")
    for line, same in formulas(range(1, 9), (*range(1, 17), 32)):
        right &= same
        out(f"  {line}")
    return 0 if right else 1


if __name__ == "__main__":
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:  # as of `| head`: whoever reads has enough
        status = 0
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)
