"""What each command does once its options are read. The api is imported only when needed."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from harness import options as asked
from harness.case import UsageError
from harness.cli.output import Output
from harness.cli.progress import progress_bar
from harness.cli.stream import is_coloured, note, say
from harness.findings import Report
from harness.nemesis import FULL_DISK

if TYPE_CHECKING:
    from harness.fuzz import Progress
    from harness.session import Drawing
    from harness.timeline import Timeline


Time = tuple[str, str | None, bool]
"""``--cost``, ``--timeline``, ``--messages``."""


def check_job(targets: tuple[str, ...], output: Output, given: dict[str, Any]) -> int:
    """``harness check``: refuse all that cannot be, then one campaign per target."""
    from harness import session
    from harness.worlds import WorldError

    options = asked.check_options(**given)
    output = on_disk(output, options.nemesis)
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
    time: Time,
    given: dict[str, Any],
) -> int:
    """``harness run``: one program, its output echoed live on stderr."""
    from harness import session

    options = asked.run_options(**given)
    output = on_disk(output, options.nemesis, time[1])
    drawing = _drawing(*time, full=output.full)
    ranks = asked.one_number(world_size, "--world-size", asked.MAX_WORLD)
    output.require()
    target = session.prepare(program, "run", options)
    report = session.run_prepared(target, ranks, options, echo_for(output), drawing)
    return _with_timeline(output.show([report]), drawing)


def replay_job(line: str, output: Output, timeout: str, strict: bool, time: Time) -> int:
    """``harness replay``: the case again."""
    from harness import api

    asked.duration(timeout, "--timeout")
    output.require()
    drawing = _drawing(*time)
    echo = echo_for(output)
    report = api.replay(
        line, timeout=float(timeout), strict=strict, isolated=True, echo=echo, drawing=drawing
    )
    return _with_timeline(output.show([report]), drawing)


def on_disk(output: Output, nemesis: tuple[str, ...], *files: str | None) -> Output:
    """Return where reports go, on a full disk where that is asked for; UsageError for no file."""
    if FULL_DISK in nemesis and not any((output.file, *files)):
        raise UsageError(f"--nemesis {FULL_DISK} goes with a file to write: -o FILE or --timeline")
    return replace(output, full=True) if FULL_DISK in nemesis else output


@dataclass
class _TimelineFile:
    """Where a timeline is written; ``status`` is 2 once that has failed."""

    output: Output
    status: int = 0

    def __call__(self, timeline: Timeline) -> None:
        """Write a timeline as Perfetto reads it."""
        self.status = self.output.write(json.dumps(timeline.to_chrome()) + "\n")


def _drawing(costs: str, file: str | None, messages: bool, *, full: bool = False) -> Drawing:
    """Read what virtual time costs, and where it is to be drawn; UsageError when that cannot be."""
    from harness.session import Drawing

    read = asked.costs_of(costs)
    if file is None:
        return Drawing(read, messages=messages)
    output = Output("json", file, True, full)
    output.require()
    return Drawing(read, _TimelineFile(output), messages)


def _with_timeline(status: int, drawing: Drawing) -> int:
    """Return the exit status of a command whose timeline may not have been written."""
    if isinstance(drawing.draw, _TimelineFile) and drawing.draw.status:
        return drawing.draw.status
    return status


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
    with progress_bar(output, target) as advance:
        if advance is None:
            yield None
            return

        def progress(now: Progress) -> None:
            failing = f", {now.failing} failing" if now.failing else ""
            advance(now.done, now.of, target + failing, now.case)

        yield progress
