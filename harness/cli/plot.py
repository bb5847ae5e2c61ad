"""``harness plot``: a plan drawn in time, without running it."""

from __future__ import annotations

import functools
import shutil
import sys

import click

from harness.cli.output import Output
from harness.cli.shared import Job
from harness.cli.stream import is_coloured, is_terminal

FORMS = ("text", "svg", "csv", "json", "chrome", "html")


@click.command()
@click.argument("targets", metavar="TARGET [TARGET2]", nargs=-1, required=True)
@click.option("-n", "-w", "--world-size", "world_size", metavar="N", help="How many ranks.")
@click.option("-c", "--chunks", metavar="C", help="How many microbatches.")
@click.option(
    "--cost",
    metavar="COSTS",
    default="F=1,B=2,I=1,W=1",
    show_default=True,
    help="What each kind of action takes on one stage.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    default="text",
    show_default=True,
    help="The form of the drawing; chrome is for Perfetto and chrome://tracing.",
)
@click.option("-o", "--output", "file", metavar="FILE", help="Write it there.")
def plot(
    targets: tuple[str, ...],
    world_size: str | None,
    chunks: str | None,
    cost: str,
    form: str,
    file: str | None,
) -> Job:
    """Draw a plan in time, without running it; two plans above each other, and compared.

    TARGET is a schedule's name, file.py:function with plan(rank, world_size, chunks), or a
    file.csv in torch's form, which has its own -n and -c. Below the grid: makespan, idle time
    and where it comes from, bubble, peak in flight, critical path, and whether it hangs under
    gloo's, buffered and NCCL's sends. Messages take no time. An invalid plan is drawn as far as
    it goes, exit status 1.
    """
    return functools.partial(_plot, targets, (world_size, chunks), cost, Output(form, file))


def _plot(
    targets: tuple[str, ...], shape: tuple[str | None, str | None], cost: str, output: Output
) -> int:
    from harness import options as asked
    from harness.case import UsageError
    from harness.plot.forms import Plot, check_form, check_size, draw
    from harness.plot.load import Shape, is_csv, load_plans

    if len(targets) > 2:
        raise UsageError(f"a plot is of one plan or two: got {len(targets)} targets")
    wanted = Shape.read(*shape)
    costs = asked.costs_of(cost)
    if (costs.latency, costs.bandwidth) != (0, float("inf")):
        raise UsageError(f"--cost {cost}: in a plot messages take no time, give F, B, I and W only")
    check_form(output.format, len(targets))
    output.require()
    plans = load_plans(targets, wanted)
    check_size(output.format, plans)
    from harness.plot.figures import measure
    from harness.plot.placed import place
    from harness.plot.problems import findings_of

    plots = []
    for target, plan in zip(targets, plans, strict=True):
        placed = place(plan, costs)
        figures = measure(placed)
        found = findings_of(placed, figures, None if is_csv(target) else target)
        plots.append(Plot(placed, figures, tuple(found)))
    watched = output.file in (None, "-") and is_terminal(sys.stdout)
    width = shutil.get_terminal_size().columns if watched else None
    color = watched and is_coloured(sys.stdout)
    status = output.write(draw(plots, output.format, width=width, color=color))
    return status or int(any(f.severity == "error" for plot in plots for f in plot.findings))
