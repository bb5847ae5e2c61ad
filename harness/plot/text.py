"""A plot for the terminal: the grid, cut to its width, and the figures below it.

The same text with and without colour: a colour is the kind of action and the microbatch.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from harness.plot.figures import Figures, Plotted, fraction, number
from harness.plot.grid import Grid
from harness.plot.limits import FIRST_RANKS, LAST_RANKS, TEXT_CELLS, TEXT_COLUMNS, WRONG_RANKS
from harness.plot.marks import LEGEND, Marks
from harness.plot.palette import WRONG, colour_of, label
from harness.plot.placed import Placed, Step
from harness.report.columns import aligned
from pipeline.actions import Action

Piece = tuple[str, str]
"""Some text, and its style as rich has it; ``""`` for none."""
Line = list[Piece]
DIM = "bright_black"


@dataclass(frozen=True, slots=True)
class _Mark:
    """What a grid shows from a column on: an action, or where a rank is stuck."""

    first: int
    end: int
    text: str
    style: str


@dataclass(frozen=True, slots=True)
class Scale:
    """The columns that are drawn, and how wide each cell is; two plans share it."""

    grid: Grid
    cell: int
    columns: int
    first: int
    shown: int
    label: int
    rows: dict[int, dict[int, list[_Mark]]]
    """By plan, by rank: of those ranks that are drawn."""

    @property
    def end(self) -> int:
        """The first column after those drawn."""
        return self.first + self.shown


def scale_of(plots: Sequence[Plotted], grid: Grid, width: int | None) -> Scale:
    """Choose the columns to draw in so many characters, all for None.

    They begin with the first, or so that the first problem is among them. Of plans too large to
    be read all the same, some ranks and columns are drawn.
    """
    cells = max(placed.plan.world * grid.columns(placed) for placed, _ in plots)
    rows = {}
    for which, (placed, figures) in enumerate(plots):
        ranks = drawn_ranks(placed, cells)
        critical = {step for step in figures.path if step[0] in ranks}
        rows[which] = {rank: _marks(placed, rank, grid, critical) for rank in ranks}
    every = [mark for plot in rows.values() for row in plot.values() for mark in row]
    # An action may spread over its columns and the gaps between them, less the last gap.
    cell = max((math.ceil((len(m.text) + 1) / (m.end - m.first)) - 1 for m in every), default=1)
    total = max(1, *(mark.end for mark in every)) if every else 1
    name = len(f"rank {max(placed.plan.world for placed, _ in plots) - 1}")
    room = total if width is None else max(1, (width - name - 1) // (cell + 1))
    shown = min(total, room if cells <= TEXT_CELLS else min(room, TEXT_COLUMNS))
    wrong = min((m.first for m in every if m.style.endswith(WRONG)), default=0)
    first = max(0, min(wrong - shown // 2, total - shown)) if wrong >= shown else 0
    return Scale(grid, cell, total, first, shown, name, rows)


def drawn_ranks(placed: Placed, cells: int) -> Sequence[int]:
    """Return the ranks to draw: of so many cells that none could read them, some."""
    world = placed.plan.world
    if cells <= TEXT_CELLS or world <= FIRST_RANKS + LAST_RANKS:
        return range(world)
    wrong = dict.fromkeys(problem.rank for problem in placed.problems)
    special = (*islice(wrong, WRONG_RANKS), *islice(placed.stuck, WRONG_RANKS))
    return sorted({*range(FIRST_RANKS), *special, *range(world - LAST_RANKS, world)})


def _marks(placed: Placed, rank: int, grid: Grid, critical: set[Step]) -> list[_Mark]:
    marks = Marks(placed)
    found = []
    for block in grid.blocks(placed, rank):
        style = _style(block.action)
        if (rank, block.at) in critical:
            style = f"underline {style}"
        if mark := marks.of(block.action):
            style = f"bold white on {WRONG}"
        found.append(_Mark(block.first, block.end, mark + label(block.action), style))
    if (stuck := marks.stuck(rank)) is not None:
        mark, action = stuck
        at = found[-1].end if found else 0
        found.append(_Mark(at, at + 1, mark + label(action), f"bold white on {WRONG}"))
    return found


def _style(action: Action) -> str:
    return f"black on {colour_of(action)}"


def lines_of(which: int, placed: Placed, figures: Figures, scale: Scale) -> Iterator[Line]:
    """Yield a plan's title, its grid and its figures."""
    plan = placed.plan
    title = f"{plan.schedule} world={plan.world} chunks={plan.chunks}, costs {_costs(placed)}"
    yield [(title, "bold")]
    yield []
    yield [("time".ljust(scale.label + 1), DIM), (_ticks(scale), DIM)]
    drawn = scale.rows[which]
    for rank, row in drawn.items():
        yield [(f"rank {rank}".ljust(scale.label + 1), ""), *_cells(row, scale)]
    for note in _notes(placed, scale, drawn):
        yield [(note, DIM)]
    yield []
    for told in figure_lines(placed, figures):
        yield [(told, "")]
    yield []
    for told in aligned(figure_table(placed, figures, drawn), left=(0, -1)):
        yield [(told, "")]
    yield [(MEANING, DIM)]


def _cells(row: Sequence[_Mark], scale: Scale) -> Line:
    """Draw what lies within the columns shown: an action's text, then a line to its end."""
    step = scale.cell + 1
    pieces: Line = []
    at = scale.first
    for mark in row:
        first, end = max(mark.first, scale.first), min(mark.end, scale.end)
        if first >= end:
            continue
        pieces.append(("·".ljust(step) * (first - at), DIM))
        text = mark.text if first == mark.first else ""
        room = (end - first) * step - 1
        pieces += [(text.ljust(room, "─")[:room], mark.style), (" ", "")]
        at = end
    pieces.append(("·".ljust(step) * (scale.end - at), DIM))
    return pieces


def _ticks(scale: Scale) -> str:
    """Write the time at each column where there is room for it."""
    pieces: list[str] = []
    written = 0
    for column in range(scale.first, scale.end):
        at = (column - scale.first) * (scale.cell + 1)
        if not pieces or written < at:
            told = number(round(column * scale.grid.unit, 9))
            pieces.append(" " * (at - written) + told)
            written = at + len(told)
    return "".join(pieces)


def _notes(placed: Placed, scale: Scale, drawn: Collection[int]) -> Iterator[str]:
    if hidden := placed.plan.world - len(drawn):
        yield (
            f"… too large to be read: {hidden} of {placed.plan.world} ranks are left out here and "
            "below; --format json has their figures, csv their actions"
        )
    unit = number(scale.grid.unit)
    if scale.grid.unit != 1:
        yield f"a column is {unit} units of time"
    if hidden := scale.columns - scale.shown:
        begin, end = (number(round(c * scale.grid.unit, 9)) for c in (scale.first, scale.end))
        yield (
            f"… cut to this width: shown is time {begin} to {end}, {hidden} of {scale.columns} "
            f"columns are not; {_elsewhere(placed, scale)} has all"
        )
    if placed.problems:
        yield LEGEND


def _elsewhere(placed: Placed, scale: Scale) -> str:
    """Name where all columns can be had."""
    is_whole = placed.plan.world * scale.columns <= TEXT_CELLS
    return "-o FILE or --format svg" if is_whole else "--format csv"


def figure_lines(placed: Placed, figures: Figures) -> Iterator[str]:
    """Yield the figures of the whole plan."""
    bubble = placed.bubble
    so_far = " as far as it goes" if placed.problems else ""
    yield f"makespan:      {number(placed.makespan)}{so_far}"
    yield (
        f"bubble:        {fraction(bubble.of_total)} of total time (world × makespan), "
        f"{fraction(bubble.of_ideal)} of ideal time (what the ranks compute)"
    )
    yield f"critical path: {len(figures.path)} actions: {figures.path}"
    yield f"deadlock:      {_deadlock(figures)}"


def _deadlock(figures: Figures) -> str:
    """Say under which semantics the plan hangs."""
    if (verdicts := figures.verdicts) is None:
        return "not looked for, the plan is invalid"
    hangs = verdicts.hangs
    under = f"under {', '.join(hangs)}" if hangs else f"none under {ALL_SEMANTICS}"
    return f"{under}; comm policy {verdicts.policy}"


HEAD = ("", "idle", "start-up", "wait F", "wait B", "end", "peak in flight", "longest wait")
ALL_SEMANTICS = "gloo, buffered, nccl-eager and nccl-lazy, at capacity 0 and inf"
MEANING = "idle = start-up + waiting for activations (F) and for gradients (B) of other ranks + end"


def figure_table(
    placed: Placed, figures: Figures, ranks: Collection[int] | None = None
) -> list[tuple[str, ...]]:
    """Return a row for each rank: its idle time, where it comes from, its peak in flight."""
    rows: list[tuple[str, ...]] = [HEAD]
    for rank in range(placed.plan.world) if ranks is None else ranks:
        source = figures.sources[rank]
        parts = (source.start_up, source.activations, source.gradients, source.end)
        wait = source.longest
        told = (
            f"{number(wait.length)}, {label(wait.action)} for {label(wait.needed)}" if wait else "-"
        )
        rows.append(
            (
                f"rank {rank}",
                number(placed.idle[rank]),
                *map(number, parts),
                str(placed.peaks[rank]),
                told,
            )
        )
    rows.append(("all", *_sums(placed, figures), str(max(placed.peaks)), ""))
    return rows


def _sums(placed: Placed, figures: Figures) -> Iterator[str]:
    names = ("start_up", "activations", "gradients", "end")
    parts = ([getattr(each, name) for each in figures.sources] for name in names)
    for column in (placed.idle, *parts):
        yield number(round(math.fsum(column), 9))


def _costs(placed: Placed) -> str:
    return ",".join(f"{kind}={placed.costs.of(kind):g}" for kind in ("F", "B", "I", "W"))


def plain(lines: Sequence[Line]) -> str:
    """Print lines without colour."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines) + "\n"


def coloured(lines: Sequence[Line]) -> str:
    """Print lines with the colours that this terminal has."""
    from rich.console import Console
    from rich.text import Text

    longest = max((sum(len(text) for text, _ in line) for line in lines), default=0)
    console = Console(force_terminal=True, width=longest + 1, highlight=False)
    with console.capture() as captured:
        for line in lines:
            console.print(Text.assemble(*line), soft_wrap=True)
    return captured.get()
