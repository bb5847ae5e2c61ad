"""``harness mutate``: a schedule's mutants, and which of them are caught."""

from __future__ import annotations

import functools
import json
from typing import Any

import click

from harness.cli.output import Output
from harness.cli.progress import progress_bar
from harness.cli.shared import Job, form_options, seed_option
from harness.cli.stream import tell


@click.command()
@click.argument("target")
@click.option("-n", "--world-size", metavar="N", help="Ranks: 4, 2,4 or 2..4  [default: 3, or 2]")
@click.option("-c", "--chunks", metavar="C", help="Microbatches, likewise  [default: 3 or more]")
@click.option("--policy", help="How a schedule's actions become sends and receives.")
@click.option("--semantics", metavar="NAME", help="How simulated sends behave  [default: all]")
@click.option("--cases", metavar="N", help="So many mutants, drawn by the seed  [default: all]")
@click.option("--seconds", metavar="S", help="Stop after that long.")
@seed_option
@form_options
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def mutate(target: str, form: str, file: str | None, quiet: bool, **given: Any) -> Job:
    """Damage a schedule in every way of the catalogue, and say what is caught.

    TARGET is as for 'harness check'. What still means the same is told apart and not counted.
    Exit status 1 when a mutant was missed, or something was found in an equivalent one.
    """
    return functools.partial(_mutate, target, Output(form, file, quiet), given)


def _mutate(text: str, output: Output, given: dict[str, Any]) -> int:
    from harness import options as asked
    from harness import session

    options = asked.check_options(**given, isolated=True)
    output.require()
    target = session.prepare(text, "check", options)
    world = session.shared_world("sim", isolated=True)
    from harness.mutate.campaign import mutate as run
    from harness.mutate.table import render

    with progress_bar(output, target.text) as advance:

        def told(done: int, of: int, what: str) -> None:
            if advance is not None:
                advance(done, of, target.text, what)

        mutation = run(target, options, world, told)
    if mutation.interrupted:
        tell(f"interrupted after {len(mutation.tried)} mutants")
    document = json.dumps(mutation.to_json(), indent=2) + "\n"
    status = output.write(document if output.format == "json" else render(mutation))
    if mutation.interrupted and mutation.ok:
        return 2
    return status or int(not mutation.ok)
