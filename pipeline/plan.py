"""A plan: every rank's actions for one (world, chunks), as pure data."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from types import CodeType, FrameType
from typing import Self

from pipeline.actions import Action, Kind, Origin
from pipeline.dependencies import Result, needs, receives_for, sends_of
from pipeline.problems import Problem, find_problems
from pipeline.schedules import Schedule, get_schedule

__all__ = ["Plan", "PlanError", "Problem", "build_plan", "peak_in_flight", "validate"]

Generate = Callable[[int, int, int], Iterable[Action | str]]
"""(rank, world, chunks) → that rank's actions."""

MAX_ROW = 200_000  # a generator that never ends must not take the machine with it


@dataclass(frozen=True)
class Plan:
    """What each rank does, in order: `rows[rank]`. `placement[stage]` is a stage's rank.

    Without a placement it is inferred: as many stages as ranks sit one on each, in order; of
    more, each sits where it appears first.

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
        if len(self.rows) != self.world:
            raise ValueError(f"a plan for world {self.world} has a row each: got {len(self.rows)}")
        if not self.placement:
            object.__setattr__(self, "placement", _infer_placement(self.rows))
        if not self.directions:
            object.__setattr__(self, "directions", _infer_directions(self))

    @property
    def stages(self) -> int:
        """How many stages there are; of two directions, each slice of the model is two."""
        return len(self.placement)

    @cached_property
    def is_lowered(self) -> bool:
        """Whether the rows contain sends and receives."""
        return any(action.kind.is_comm for row in self.rows for action in row)

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

    def to_csv(self) -> str:
        """Print in torch's form: one line per rank, one cell per action."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(self.rows)
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

        ValueError says which line and cell is not an action.
        """
        rows = []
        for line, cells in enumerate(csv.reader(io.StringIO(text)), start=1):
            origin = Origin(file, line, "") if file else None
            row = []
            for column, cell in enumerate(cells, start=1):
                if not cell.strip():
                    continue
                try:
                    row.append(Action.parse(cell, origin))
                except ValueError as error:
                    raise ValueError(f"line {line}, cell {column}: {error}") from None
            rows.append(tuple(row))
        if not any(rows):
            raise ValueError("no action in the CSV; expected one line per rank, such as 0F0,0B0")
        chunks = 1 + max(p.microbatch for row in rows for action in row for p in action.parts)
        return cls(schedule, len(rows), chunks, tuple(rows), forward_only=forward_only)

    def grid(self, marked: AbstractSet[Action] = frozenset(), columns: int = 16) -> str:
        """Draw rank × step, `!` before the marked actions, around the first of which it is cut."""
        shown = {a for row in self.rows for a in row if not marked.isdisjoint({a, *a.parts})}
        steps = [step for row in self.rows for step, action in enumerate(row) if action in shown]
        first = max(0, min(steps, default=0) - columns // 2)
        rows = []
        for row in self.rows:
            cells = [f"!{action}" if action in shown else str(action) for action in row]
            more = ["…"] if len(cells) > first + columns else []
            rows.append(cells[first : first + columns] + more)
        return draw(rows, start=first)


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
    change = {Kind.F: +1, Kind.B: -1, Kind.W: -1}
    peaks = []
    for row in plan.rows:
        now = peak = 0
        for action in row:
            for part in action.parts:
                now += change.get(part.kind, 0)
                peak = max(peak, now)
        peaks.append(peak)
    return tuple(peaks)


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
        rows = _generate_all(schedule, world, chunks)
        return Plan(_name(schedule), world, chunks, rows)
    if reason := schedule.refusal(world, chunks):
        raise ValueError(f"{schedule.name}: {reason}")
    return Plan(
        schedule.name,
        world,
        chunks,
        _generate_all(schedule.generate, world, chunks),
        schedule.placement(world),
        schedule.directions,
        schedule.forward_only,
    )


def _generate_all(generate: Generate, world: int, chunks: int) -> tuple[tuple[Action, ...], ...]:
    return tuple(tuple(_generate(generate, rank, world, chunks)) for rank in range(world))


def _generate(generate: Generate, rank: int, world: int, chunks: int) -> Iterator[Action]:
    items = iter(generate(rank, world, chunks))
    for item in islice(items, MAX_ROW):
        if isinstance(item, str):
            item = Action.parse(item)
        elif not isinstance(item, Action):
            raise ValueError(
                f"{_name(generate)} yielded {item!r} for rank {rank}; "
                "expected an Action or its text, such as '2F0'"
            )
        origin = item.origin or _origin(items, generate)
        yield item if origin is None or item.origin else item.at(origin)
    if next(items, None) is not None:
        raise ValueError(f"{_name(generate)} yielded over {MAX_ROW} actions for rank {rank}")


def _origin(items: object, generate: Generate) -> Origin | None:
    """Find the line a generator stands at, in the innermost one it delegates to."""
    while (inner := getattr(items, "gi_yieldfrom", None)) is not None and hasattr(
        inner, "gi_frame"
    ):
        items = inner
    frame: FrameType | None = getattr(items, "gi_frame", None)
    if frame is not None:
        return Origin(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname)
    # Not a generator: the function that made the items is the best there is.
    code: CodeType | None = getattr(generate, "__code__", None)
    return Origin(code.co_filename, code.co_firstlineno, code.co_qualname) if code else None


def _name(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _infer_placement(rows: Sequence[Sequence[Action]]) -> tuple[int, ...]:
    world = len(rows)
    stages = 1 + max((p.stage for row in rows for action in row for p in action.parts), default=0)
    # Ranks hold equally many stages; one stage index too many is a fault, not one more stage.
    stages = max(1, stages // world) * world
    if stages == world:
        return tuple(range(world))
    first: dict[int, int] = {}
    for rank, row in enumerate(rows):
        for action in row:
            for part in action.parts:
                first.setdefault(part.stage, rank)
    return tuple(first.get(stage, stage % world) for stage in range(stages))


def _infer_directions(plan: Plan) -> int:
    """Return 2 where each half of the stages, placed in a V, does its own half of the work.

    A plan of one direction has every stage do every microbatch, so that no valid one is mistaken.
    """
    v_shaped = (*range(plan.world), *reversed(range(plan.world)))
    if plan.placement != v_shaped or plan.world % 2 or plan.chunks % 2:
        return 1
    mixed = any(
        (part.stage < plan.world) != (part.microbatch < plan.chunks // 2)
        for row in plan.rows
        for action in row
        for part in action.parts
    )
    return 1 if mixed else 2
