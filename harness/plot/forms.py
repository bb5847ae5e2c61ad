"""The forms that plots can be drawn in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.case import UsageError
from harness.findings import Finding
from harness.plot.figures import Figures, caution, differences
from harness.plot.grid import Grid
from harness.plot.limits import DRAWN_ACTIONS
from harness.plot.placed import Placed
from pipeline.plan import Plan


@dataclass(frozen=True, slots=True)
class Plot:
    """One plan, ready to be drawn."""

    placed: Placed
    figures: Figures
    findings: tuple[Finding, ...] = ()


def check_form(form: str, plans: int) -> None:
    """Refuse a form that cannot hold so many plans: UsageError."""
    if form == "csv" and plans > 1:
        raise UsageError("--format csv holds one plan: give one target")


def check_size(form: str, plans: Iterable[Plan]) -> None:
    """Refuse a form that has an element for each action, of plans with too many: UsageError."""
    actions = sum(plan.coded.size for plan in plans)
    if form in ("svg", "html", "chrome") and actions > DRAWN_ACTIONS:
        raise UsageError(
            f"--format {form}: {actions} actions are too many to draw, {DRAWN_ACTIONS} at most; "
            "text and json have the figures, csv the actions"
        )


def draw(plots: Sequence[Plot], form: str, *, width: int | None = None, color: bool = False) -> str:
    """Draw one plan or two; ``width`` and ``color`` are for text."""
    check_form(form, len(plots))
    pairs = [(plot.placed, plot.figures) for plot in plots]
    if form == "csv":
        return plots[0].placed.plan.to_csv()
    if form == "svg":
        from harness.plot.svg import render_svg

        return render_svg(pairs)
    if form == "html":
        from harness.plot.page import render_html

        return render_html(pairs, [plot.findings for plot in plots])
    if form == "chrome":
        from harness.plot.chrome import to_chrome

        return json.dumps(to_chrome(pairs)) + "\n"
    return _json(plots) if form == "json" else _text(plots, width, color)


def _json(plots: Sequence[Plot]) -> str:
    from harness.plot.document import both_to_json, dumps, to_json

    grid = Grid.of(plot.placed for plot in plots)
    documents = [to_json(plot.placed, plot.figures, plot.findings, grid) for plot in plots]
    if len(documents) == 1:
        return dumps(documents[0])
    return dumps(both_to_json(documents, [(plot.placed, plot.figures) for plot in plots]))


def _text(plots: Sequence[Plot], width: int | None, color: bool) -> str:
    from harness.plot.problems import finding_lines
    from harness.plot.table import difference_rows
    from harness.plot.text import Line, coloured, lines_of, plain, scale_of
    from harness.report.columns import aligned

    grid = Grid.of(plot.placed for plot in plots)
    scale = scale_of([(plot.placed, plot.figures) for plot in plots], grid, width)
    lines: list[Line] = []
    for which, plot in enumerate(plots):
        lines += [[]] if which else []
        lines += lines_of(which, plot.placed, plot.figures, scale)
        for finding in plot.findings:
            lines += [[], *([(line, "")] for line in finding_lines(plot.placed, finding))]
    if len(plots) == 2:
        first, second = ((plot.placed, plot.figures) for plot in plots)
        names = (first[0].plan.schedule, second[0].plan.schedule)
        rows = difference_rows(names, differences(first, second))
        lines += [
            [],
            [("Differences", "bold")],
            *([(line, "")] for line in aligned(rows, left=(0, -1))),
        ]
        if told := caution((first, second)):
            lines.append([(told, "")])
    return coloured(lines) if color else plain(lines)
