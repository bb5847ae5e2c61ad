"""What each command does once its options are read. The api is imported only when needed."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from harness import options as asked
from harness.cli.output import Output
from harness.cli.stream import is_coloured, note, say
from harness.findings import Report

if TYPE_CHECKING:
    from harness.fuzz import Progress
    from harness.session import Drawing
    from harness.timeline import Timeline


def check_job(targets: tuple[str, ...], output: Output, given: dict[str, Any]) -> int:
    """``harness check``: refuse all that cannot be, then one campaign per target."""
    from harness import session
    from harness.worlds import WorldError

    options = asked.check_options(**given)
    output.require()
    parsed = [session.read_target(target, "check", options) for target in dict.fromkeys(targets)]
    prepared = [session.prepare(target, "check", options) for target in parsed]
    reports: list[Report] = []
    for target in prepared:
        try:
            with _progress(output, target.text) as progress:
                reports.append(session.check_prepared(target, options, progress))
        except WorldError as error:
            if not reports:
                raise
            reports.append(Report(target.text, options.backend, (), error=str(error)))
        if reports[-1].interrupted:
            break
    return output.show(reports)


def run_job(
    program: str,
    world_size: str,
    output: Output,
    time: tuple[str, str | None],
    given: dict[str, Any],
) -> int:
    """``harness run``: one program, its output echoed live on stderr."""
    from harness import session

    drawing = _drawing(*time)
    options = asked.run_options(**given)
    ranks = asked.one_number(world_size, "--world-size", asked.MAX_WORLD)
    output.require()
    target = session.prepare(program, "run", options)
    report = session.run_prepared(target, ranks, options, echo_for(output), drawing)
    return output.show([report])


def replay_job(
    line: str, output: Output, timeout: str, strict: bool, time: tuple[str, str | None]
) -> int:
    """``harness replay``: the case again."""
    from harness import api

    asked.duration(timeout, "--timeout")
    output.require()
    drawing = _drawing(*time)
    echo = echo_for(output)
    report = api.replay(
        line, timeout=float(timeout), strict=strict, isolated=True, echo=echo, drawing=drawing
    )
    return output.show([report])


def _drawing(costs: str, file: str | None) -> Drawing:
    """Read what virtual time costs, and where it is to be drawn; UsageError when that cannot be."""
    from harness.session import Drawing

    read = asked.costs_of(costs)
    if file is None:
        return Drawing(read)
    output = Output("json", file, True)
    output.require()
    return Drawing(read, lambda line: write_timeline(output, line))


def write_timeline(output: Output, timeline: Timeline) -> None:
    """Write a timeline as Perfetto reads it."""
    output.write(json.dumps(timeline.to_chrome()) + "\n")


def explain_job(code: str | None) -> int:
    """``harness explain``: one code's page, or the list."""
    from harness import codes
    from harness.codes.page import render_list, render_page, show_rich

    if code is None:
        say(render_list())
    elif is_coloured(sys.stdout):
        show_rich(codes.find(code))
    else:
        say(render_page(codes.find(code)))
    return 0


def echo_for(output: Output) -> Callable[[int, str], None] | None:
    """Return what prints a rank's output as ``rank 0 | line`` on stderr; None when quiet."""
    if output.quiet:
        return None
    lock = threading.Lock()

    def echo(rank: int, line: str) -> None:
        with lock:
            note(f"rank {rank} | {line.rstrip()}")

    return echo


@contextmanager
def _progress(output: Output, target: str) -> Iterator[Callable[[Progress], None] | None]:
    """Draw a campaign's progress on a terminal; None where nobody watches."""
    if not output.shows_progress:
        yield None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True, no_color=not is_coloured(sys.stderr))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[case]}", style="dim"),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task(escape(target), total=None, case="")

        def progress(now: Progress) -> None:
            failing = f", {now.failing} failing" if now.failing else ""
            bar.update(
                task,
                total=now.of,
                completed=now.done,
                description=escape(target + failing),
                case=escape(now.case),
            )

        yield progress
