"""A plan: every rank's actions for one (world, chunks), as pure data."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Self

from pipeline.actions import Action, Origin, with_reductions
from pipeline.coded import (
    BACKWARDS,
    COMMS,
    FORWARD,
    FULL,
    KINDS,
    PAIR,
    WEIGHT,
    Coded,
    Origins,
    Row,
    encode,
)
from pipeline.dependencies import Result, needs, receives_for, sends_of
from pipeline.generate import Generate, generate_all, name_of
from pipeline.placement import v_shaped
from pipeline.problems import Problem, find_problems
from pipeline.schedules import Schedule, get_schedule

__all__ = ["Plan", "PlanError", "Problem", "build_plan", "peak_in_flight", "validate"]


@dataclass(frozen=True)
class Plan:
    """What each rank does, in order: `rows[rank]`. `placement[stage]` is a stage's rank.

    Without a placement it is inferred: each stage sits where its actions are, if all stages have
    equally many and each is on one rank. Else something is wrong with the plan, and as many stages
    as ranks sit one on each, in order; of more, each sits where it appears first.

    A plan of two directions is two pipelines over the same ranks, told apart by their numbers:
    the first half of the stages does the first half of the microbatches, the second half the
    others, and no data goes between the halves. Stage `s` and stage `s + stages / 2` are copies
    of one slice of the model, with the same parameters. So an action still prints and parses as
    torch's, and names what it works on by stage and microbatch alone.
    """

    schedule: str
    world: int
    chunks: int
    rows: tuple[tuple[Action, ...], ...]
    placement: tuple[int, ...] = field(default=())
    directions: int = 0
    """How many pipelines the stages are, 1 or 2; 0 is inferred, from a placement in a V."""
    forward_only: bool = False
    """Whether there are no backwards to do."""

    def __post_init__(self) -> None:
        count = len(self.rows if "rows" in self.__dict__ else self.coded.rows)
        if count != self.world:
            raise ValueError(f"a plan for world {self.world} has a row each: got {count}")
        if not self.placement:
            object.__setattr__(self, "placement", _infer_placement(self.coded))
        if not self.directions:
            object.__setattr__(self, "directions", _infer_directions(self))

    @classmethod
    def of_coded(
        cls,
        schedule: str,
        chunks: int,
        coded: Coded,
        placement: tuple[int, ...] = (),
        directions: int = 0,
        forward_only: bool = False,
    ) -> Self:
        """Make a plan of rows as numbers. Its `rows` are made when they are first asked for."""
        plan = object.__new__(cls)
        plan.__dict__.update(
            schedule=schedule,
            world=len(coded.rows),
            chunks=chunks,
            placement=placement,
            directions=directions,
            forward_only=forward_only,
            coded=coded,
        )
        plan.__post_init__()
        return plan

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Make the rows of a plan that was given as numbers."""
            if name != "rows" or "coded" not in self.__dict__:
                raise AttributeError(f"a plan has no {name!r}")
            ranks = range(len(self.coded.rows))
            rows = tuple(tuple(self.coded.actions(rank)) for rank in ranks)
            object.__setattr__(self, "rows", rows)
            return rows

    @cached_property
    def coded(self) -> Coded:
        """The rows as numbers; ValueError for an action that has one of more than 31 bits."""
        try:
            return encode(self.rows)
        except OverflowError:
            raise ValueError(f"{self.schedule}: a stage or microbatch is too large") from None

    def actions(self, rank: int) -> Iterable[Action]:
        """Give a rank's actions; of a large plan each is made as it is asked for."""
        return self.rows[rank] if "rows" in self.__dict__ else self.coded.actions(rank)

    def action(self, rank: int, at: int) -> Action:
        """Return the action at a place of a rank's row."""
        if "rows" in self.__dict__:
            return self.rows[rank][at]
        return self.coded.rows[rank].action(at, self.coded.origins)

    @property
    def stages(self) -> int:
        """How many stages there are; of two directions, each slice of the model is two."""
        return len(self.placement)

    @cached_property
    def is_lowered(self) -> bool:
        """Whether the rows contain sends and receives."""
        return any(not COMMS.isdisjoint(row.kinds) for row in self.coded.rows)

    def needs(self, action: Action) -> list[Result]:
        """List the results that an action of this plan waits for."""
        return needs(action, self.placement, self.is_lowered, self.directions)

    def receives_for(self, action: Action) -> list[Action]:
        """Name the receives that bring a compute action its data from other ranks."""
        return receives_for(action, self.placement, self.directions)

    def sends_of(self, action: Action) -> list[Action]:
        """Name the sends that take a compute action's results to other ranks."""
        return sends_of(action, self.placement, self.directions)

    def microbatches(self, stage: int) -> range:
        """Return the microbatches that a stage does: of two directions, those of its own."""
        direction = stage * self.directions // self.stages
        bounds = [self.chunks * way // self.directions for way in (direction, direction + 1)]
        return range(*bounds)

    def rank_of(self, stage: int) -> int:
        """Return the rank that holds a stage."""
        return self.placement[stage]

    def to_csv(self, *, reduce_gradients: bool = False) -> str:
        """Print in torch's form: one line per rank, one cell per action.

        With `reduce_gradients` a stage's last backward is followed by the action at which torch's
        runtime divides its gradients by the number of microbatches: it does so nowhere else in a
        plan that has sends and receives already.
        """
        text = io.StringIO()
        rows: Iterable[Iterable[Action | str]] = map(self.actions, range(self.world))
        if reduce_gradients:
            rows = (with_reductions(self.actions(rank)) for rank in range(self.world))
        csv.writer(text, lineterminator="\n").writerows(rows)
        return text.getvalue()

    @classmethod
    def from_csv(
        cls,
        text: str,
        schedule: str = "csv",
        file: str | None = None,
        *,
        forward_only: bool = False,
    ) -> Self:
        """Read torch's form; empty cells are idle steps, `file` is named in origins.

        Left out is what torch adds for parameters and has no meaning here
        (`Action.parse_torchs`). ValueError says which line and cell is not an action.
        """
        rows, origins = [], Origins()
        for line, cells in enumerate(_lines_of(text), start=1):
            number = origins.number(Origin(file, line, "") if file else None)
            row = Row()
            for column, cell in enumerate(cells, start=1):
                if not cell.strip():
                    continue
                try:
                    if (action := Action.parse_torchs(cell)) is not None:
                        row.add(action, number)
                except ValueError as error:
                    raise ValueError(f"line {line}, cell {column}: {error}") from None
                except OverflowError:
                    raise ValueError(f"line {line}, cell {column}: too large: {cell}") from None
            rows.append(row)
        while rows and not rows[-1]:
            rows.pop()  # a blank line at the end is no rank
        if any(not len(row) for row in rows):
            blank = next(line for line, row in enumerate(rows, start=1) if not len(row))
            raise ValueError(f"line {blank} has no action; each line is one rank's")
        if not rows:
            raise ValueError("no action in the CSV; expected one line per rank, such as 0F0,0B0")
        coded = Coded(tuple(rows), origins.listed())
        chunks = 1 + max(
            (part[2] for row in rows for part in row.parts() if _can_be(part[2], coded)), default=0
        )
        return cls.of_coded(schedule, chunks, coded, forward_only=forward_only)

    def grid(self, marked: AbstractSet[Action] = frozenset(), columns: int = 16) -> str:
        """Draw rank × step, `!` before the marked actions, around the first of which it is cut."""

        def is_marked(action: Action) -> bool:
            return not marked.isdisjoint({action, *action.parts})

        ranks = range(self.world)
        steps = (
            step
            for rank in ranks
            for step, action in enumerate(self.actions(rank))
            if marked and is_marked(action)
        )
        first = max(0, min(steps, default=0) - columns // 2)
        rows = []
        for rank, row in enumerate(self.coded.rows):
            seen = range(first, min(len(row), first + columns))
            cut = (self.action(rank, step) for step in seen)
            cells = [f"!{action}" if is_marked(action) else str(action) for action in cut]
            rows.append(cells + (["…"] if len(row) > first + columns else []))
        return draw(rows, start=first)


def _lines_of(text: str) -> Iterator[list[str]]:
    """Give the cells of each line; ValueError where it is no CSV."""
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        yield from lines
    except csv.Error as error:
        raise ValueError(f"line {lines.line_num}: {error}") from None


def draw(rows: Sequence[Sequence[str]], start: int = 0) -> str:
    """Align cells in columns under step numbers, one line per rank."""
    steps = [str(start + step) for step in range(max((len(row) for row in rows), default=0))]
    width = max((len(cell) for row in [*rows, steps] for cell in row), default=0)
    lines = [("step", steps), *((f"rank {rank}", row) for rank, row in enumerate(rows))]
    label = max(len(name) for name, _ in lines)
    return "\n".join(
        "  ".join([name.ljust(label), *(cell.ljust(width) for cell in cells)]).rstrip()
        for name, cells in lines
    )


class PlanError(ValueError):
    """A plan that cannot be run, with every problem and the place of the first in the grid."""

    def __init__(self, plan: Plan, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        shown = [f"  {problem}" for problem in self.problems[:5]]
        if hidden := len(self.problems) - len(shown):
            shown.append(f"  … and {hidden} more")
        title = f"{plan.schedule} world={plan.world} chunks={plan.chunks} cannot run:"
        grid = plan.grid({problem.action for problem in self.problems})
        super().__init__("\n".join([title, *shown, grid]))


def validate(plan: Plan) -> None:
    """Raise PlanError if the plan does not do each stage's work for each microbatch once, in order.

    Checked: actions twice, missing, out of range, on the wrong rank, before their cause; sends
    and receives without each other; ranks that wait for each other under any comm policy.
    """
    if problems := find_problems(plan):
        raise PlanError(plan, problems)


def peak_in_flight(plan: Plan) -> tuple[int, ...]:
    """Count, per rank, the most (stage, microbatch) pairs whose forward is done, backward not.

    With a split backward the activation is held until W. An overlapped pair holds both its own.
    """
    return tuple(peak_of(row, len(row)) for row in plan.coded.rows)


_CHANGE = [
    {FORWARD: 1, PAIR: 1, FULL: -1, WEIGHT: -1}.get(number, 0) for number in range(len(KINDS))
]


def peak_of(row: Row, length: int) -> int:
    """Count what `peak_in_flight` does, in so many actions of one row."""
    kinds = row.kinds if length == len(row) else row.kinds[:length]
    if PAIR not in kinds:
        return max(0, max(accumulate(map(_CHANGE.__getitem__, kinds)), default=0))
    now = peak = 0
    for kind in kinds:
        now += _CHANGE[kind]
        peak = max(peak, now)
        now -= kind == PAIR  # what its backward gives back
    return peak


def build_plan(schedule: Schedule | str | Generate, world: int, chunks: int) -> Plan:
    """Run a schedule for every rank. Each action knows the line that yielded it.

    `schedule` is one of the registry, its name, or a function (rank, world, chunks) that yields
    actions or their text. ValueError for a shape or an item that cannot be.
    """
    for name, value in (("world", world), ("chunks", chunks)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1: got {value}")
    if isinstance(schedule, str):
        schedule = get_schedule(schedule)
    if not isinstance(schedule, Schedule):
        return Plan.of_coded(name_of(schedule), chunks, generate_all(schedule, world, chunks))
    if reason := schedule.refusal(world, chunks):
        raise ValueError(f"{schedule.name}: {reason}")
    return Plan.of_coded(
        schedule.name,
        chunks,
        generate_all(schedule.generate, world, chunks),
        schedule.placement(world),
        schedule.directions,
        schedule.forward_only,
    )


def _infer_placement(coded: Coded) -> tuple[int, ...]:
    world = len(coded.rows)
    holders: dict[int, list[int]] = {}
    forwards: Counter[int] = Counter()
    backwards: Counter[int] = Counter()
    for rank, row in enumerate(coded.rows):
        for stage in row.used_stages():
            holders.setdefault(stage, []).append(rank)
        for kind, stage, _ in row.parts():
            forwards[stage] += kind == FORWARD
            backwards[stage] += kind in BACKWARDS
    named = sorted(stage for stage in holders if _can_be(stage, coded))
    stages = 1 + max(named, default=0)
    each_once = len(named) == stages and all(len(holders[stage]) == 1 for stage in named)
    alike = len({(forwards[stage], backwards[stage]) for stage in named}) == 1
    if each_once and alike and stages >= world:
        return tuple(holders[stage][0] for stage in range(stages))
    # Ranks hold equally many stages; one stage index too many is a fault, not one more stage.
    stages = max(1, stages // world) * world
    if stages == world:
        return tuple(range(world))
    return tuple(holders.get(stage, [stage % world])[0] for stage in range(stages))


def _can_be(number: int, coded: Coded) -> bool:
    """Whether a plan can have a stage or microbatch of this number: each has an action."""
    return number < 2 * coded.size


def _infer_directions(plan: Plan) -> int:
    """Return 2 where each half of the stages, placed in a V, does its own half of the work.

    A plan of one direction has every stage do every microbatch, so that no valid one is mistaken.
    """
    if plan.placement != v_shaped(plan.world) or plan.world % 2 or plan.chunks % 2:
        return 1
    mixed = any(
        (stage < plan.world) != (microbatch < plan.chunks // 2)
        for row in plan.coded.rows
        for _, stage, microbatch in row.parts()
    )
    return 1 if mixed else 2
