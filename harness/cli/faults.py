"""``harness faults``: the labelled corpus, its pages, its runs and its score."""

from __future__ import annotations

import functools
import json
import sys
import textwrap
import time
from typing import TYPE_CHECKING, Any

import click

from harness.case import UsageError
from harness.cli.output import Output
from harness.cli.progress import progress_bar
from harness.cli.shared import Job, form_options, report_options, together
from harness.cli.stream import is_coloured, say, tell

if TYPE_CHECKING:
    from harness.faults.entry import Entry

_corpus = together(
    click.option("--corpus", metavar="DIR", help="A folder of entries  [default: the built-in]"),
)
_filters = together(
    click.option("--class", "kinds", multiple=True, metavar="CLASS", help="Only of this class."),
    click.option("--code", "codes", multiple=True, metavar="CODE", help="Only with this finding."),
    click.option("--source", "sources", multiple=True, metavar="TEXT", help="Only from there."),
)
_backend = click.option("--backend", default="sim", show_default=True, help="sim, gloo or nccl.")


@click.group()
def faults() -> None:
    """Show, run and score the corpus of faults, each with its correct twin."""


@faults.command("list")
@_filters
@_corpus
@form_options
def list_(form: str, file: str | None, **given: Any) -> Job:
    """List the entries: name, class, finding, title."""
    return functools.partial(_list, Output(form, file), given)


@faults.command()
@click.argument("name", metavar="ID")
@click.option("--code-only", is_flag=True, help="The page and the code: run nothing.")
@_backend
@_corpus
def show(name: str, corpus: str | None, backend: str, code_only: bool) -> Job:
    """Show one entry: its page, its code, what the harness finds in it, its messages."""
    return functools.partial(_show, name, corpus, backend, code_only)


@faults.command()
@click.argument("name", metavar="ID")
@click.option("--twin", is_flag=True, help="Run the correct program instead.")
@_backend
@click.option("--semantics", metavar="NAME", help="How simulated sends behave  [default: all]")
@_corpus
@report_options
def run(
    name: str,
    twin: bool,
    corpus: str | None,
    backend: str,
    semantics: str | None,
    form: str,
    file: str | None,
    quiet: bool,
) -> Job:
    """Run one entry's faulty program as 'harness run' or 'harness check' would."""
    output = Output(form, file, quiet)
    return functools.partial(_run, name, corpus, twin, backend, semantics, output)


@faults.command()
@_filters
@_backend
@click.option("--update", is_flag=True, help="Note what falls short now as the new baseline.")
@_corpus
@form_options
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def score(form: str, file: str | None, quiet: bool, **given: Any) -> Job:
    """Run every entry and its twin; say what is found, by its right name and place.

    Exit status 1 when anything falls short that the baseline does not know of.
    """
    return functools.partial(_score, Output(form, file, quiet), **given)


def _read(corpus: str | None, given: dict[str, Any] | None = None) -> list[Entry]:
    from harness.faults.corpus import chosen, read_corpus

    entries = read_corpus(corpus)
    given = given or {}
    names = ("kinds", "codes", "sources")
    return chosen(entries, **{name: given[name] for name in names if given.get(name)})


def _list(output: Output, given: dict[str, Any]) -> int:
    from harness.faults.page import as_json, render_list

    output.require()
    entries = _read(given["corpus"], given)
    if output.format == "json":
        return output.write(json.dumps([as_json(entry) for entry in entries], indent=2) + "\n")
    return output.write(render_list(entries))


def _show(name: str, corpus: str | None, backend: str, code_only: bool) -> int:
    from harness import options as asked
    from harness.faults.corpus import find
    from harness.faults.page import render_page, show_rich

    asked.backend_name(backend)
    entry = find(_read(corpus), name)
    if is_coloured(sys.stdout):
        show_rich(entry)
    else:
        say(render_page(entry))
    if code_only:
        return 0
    from harness.faults.examine import picture, run_entry
    from harness.report.text import render

    report = run_entry(entry, "faulty", backend=backend)
    say("\n" + render(report, color=is_coloured(sys.stdout)))
    if drawn := picture(report):
        say("\nIts calls, and who met whom\n" + textwrap.indent(drawn, "  "))
    return 0


def _run(
    name: str,
    corpus: str | None,
    twin: bool,
    backend: str,
    semantics: str | None,
    output: Output,
) -> int:
    from harness import options as asked
    from harness.faults.corpus import find

    asked.semantics_of(semantics, asked.backend_name(backend))
    output.require()
    entry = find(_read(corpus), name)
    from harness.faults.examine import run_entry

    report = run_entry(
        entry,
        "correct" if twin else "faulty",
        backend=backend,
        semantics=semantics,
        confirm=True,
        isolated=True,
    )
    return output.show([report])


def _score(
    output: Output,
    *,
    corpus: str | None,
    backend: str,
    update: bool,
    **filters: Any,
) -> int:
    from pathlib import Path

    from harness import options as asked
    from harness.faults.score import Score, examine_all, read_baseline, write_baseline
    from harness.faults.table import render
    from harness.worlds.backends import require_backend

    asked.backend_name(backend)
    output.require()
    everything = _read(corpus)
    entries = _read(corpus, filters)
    require_backend(backend, max(entry.label.world for entry in entries))
    folder = None if corpus is None else Path(corpus)
    try:
        baseline = read_baseline(folder, backend)
    except UsageError:
        if not update:
            raise
        baseline = {}  # made anew
    result = Score(backend)
    started = time.monotonic()
    try:
        with progress_bar(output, "faults") as advance:
            for done, verdict in enumerate(examine_all(entries, backend), 1):
                result.verdicts.append(verdict)
                if advance is not None:
                    advance(done, len(entries), "faults", verdict.id)
    except KeyboardInterrupt:
        result.interrupted = True
        tell(f"interrupted after {len(result.verdicts)} of {len(entries)} entries")
    result.elapsed_s = time.monotonic() - started
    if update and not result.interrupted:
        baseline = write_baseline(folder, baseline, result, {e.id for e in everything})
    below = result.below(baseline)
    if output.format == "json":
        document = result.to_json() | {"below_baseline": {k: list(v) for k, v in below.items()}}
        status = output.write(json.dumps(document, indent=2) + "\n")
    else:
        status = output.write(render(result, below))
    for verdict in result.unrun:
        tell(f"{verdict.id} could not be run: {verdict.unrun}")
    return status or (2 if result.interrupted or result.unrun else int(bool(below)))
