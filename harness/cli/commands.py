"""The commands and their options. Parsing gives a job; :func:`harness.cli.main` runs it."""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Sequence
from typing import Any

import click

from harness import __version__
from harness.case import UsageError
from harness.cli.faults import faults
from harness.cli.mutate import mutate
from harness.cli.output import Output
from harness.cli.plot import plot
from harness.cli.shared import (
    Job,
    form_options,
    nemesis_option,
    report_options,
    seed_option,
    time_options,
    watch_options,
    world_options,
)
from harness.cli.stream import StdoutError


def parse(args: Sequence[str] | None) -> Job | None:
    """Read the command line; None when click has answered already (help, version).

    UsageError, in one line, for whatever click does not take.
    """
    try:
        answer = cli.main(args, prog_name="harness", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        where = error.ctx.command_path if error.ctx else "harness"
        raise UsageError(f"no command given: see '{where} --help'") from None
    except click.ClickException as error:
        raise UsageError(_one_line(error)) from None
    except click.Abort:
        raise KeyboardInterrupt from None
    except AttributeError:
        if sys.stdout is not None:
            raise
        raise StdoutError("it is closed") from None  # help has nowhere to go
    return answer if callable(answer) else None


def _one_line(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "harness"
    if isinstance(error, click.NoSuchCommand) or "No such command" in error.format_message():
        message += f" (commands: {', '.join(cli.commands)})"
    return f"{message}: see '{where} --help'"


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 no finding, 1 findings, 2 could not check.",
)
@click.version_option(__version__, prog_name="harness", message="%(prog)s %(version)s")
def cli() -> None:
    """Find faults in distributed comms and pipeline schedules."""


@cli.command()
@click.argument("targets", metavar="TARGET...", nargs=-1, required=True)
@world_options
@click.option("-n", "--world-size", metavar="N", help="Ranks: 4, 2,4 or 2..6  [default: 1..6]")
@click.option("-c", "--chunks", metavar="C", help="Microbatches, likewise  [default: 1..12]")
@click.option("--policy", help="How a schedule's actions become sends and receives.")
@click.option("--cases", metavar="N", help="How many cases to try  [default: 40]")
@click.option("--seconds", metavar="S", help="Stop after that long.")
@seed_option
@nemesis_option
@watch_options
@report_options
def check(
    targets: tuple[str, ...], form: str, file: str | None, quiet: bool, **options: Any
) -> Job:
    """Fuzz schedules over worlds, chunks and shapes; compare with one process; shrink failures.

    TARGET is a schedule's name (naive, gpipe, 1f1b, interleaved, zb-h1, zb-h2, zbv, v-half,
    v-min, dualpipe, dualpipev), file.py:function or package.module:function, a plan in file.csv,
    or a schedule class of torch.distributed.pipelining. The function is
    step(stage, comms, batch, chunks), with stages where a rank holds several, or
    plan(rank, world_size, chunks).
    """
    from harness.cli.jobs import check_job

    return functools.partial(check_job, targets, Output(form, file, quiet), options)


@cli.command()
@click.argument("program")
@click.argument("args", nargs=-1, metavar="[-- ARGS...]")
@click.option("-n", "--world-size", metavar="N", required=True, help="How many ranks.")
@world_options
@seed_option
@nemesis_option
@watch_options
@time_options
@report_options
def run(
    program: str,
    world_size: str,
    form: str,
    file: str | None,
    quiet: bool,
    cost: str,
    timeline: str | None,
    messages: bool,
    **options: Any,
) -> Job:
    """Run one program under watch.

    PROGRAM is file.py:function, called as function(rank, world_size) with its process group
    ready, or a script file.py, run as __main__ with torchrun's environment variables. ARGS are
    the program's own.
    """
    from harness.cli.jobs import run_job

    output = Output(form, file, quiet)
    time = (cost, timeline, messages)
    return functools.partial(run_job, program, world_size, output, time, options)


@cli.command()
@click.argument("case", nargs=-1, required=True, metavar="CASE")
@watch_options
@time_options
@report_options
def replay(
    case: tuple[str, ...],
    form: str,
    file: str | None,
    quiet: bool,
    timeout: str,
    strict: bool,
    cost: str,
    timeline: str | None,
    messages: bool,
) -> Job:
    """Run a reported case again, exactly.

    CASE is the line that a report shows after "replay:", quoted or as it is.
    """
    from harness.cli.jobs import replay_job

    line = case[0] if len(case) == 1 else shlex.join(case)
    output = Output(form, file, quiet)
    return functools.partial(replay_job, line, output, timeout, strict, (cost, timeline, messages))


@cli.command()
@click.argument("code", required=False)
def explain(code: str | None) -> Job:
    """Say what a finding means, why it is bad and how to fix it; without CODE, list all."""
    from harness.cli.jobs import explain_job

    return functools.partial(explain_job, code)


@cli.command()
@click.option(
    "--backend",
    default="sim,gloo",
    show_default=True,
    metavar="LIST",
    help="Worlds to measure: sim, gloo, nccl.",
)
@click.option(
    "-n",
    "--world-size",
    "--worlds",
    "worlds",
    default="2..4",
    show_default=True,
    metavar="N",
    help="Ranks: 4, 2,4 or 2..6.",
)
@click.option(
    "--cases", default="20", show_default=True, metavar="N", help="Cases of each figure, at most."
)
@click.option(
    "--seconds", default="60", show_default=True, metavar="S", help="Limit of each figure."
)
@form_options
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def bench(form: str, file: str | None, quiet: bool, **options: Any) -> Job:
    """Measure cases per second, beside the same case in torch's own test classes.

    Every figure is taken in a fresh process, its start-up counted: each world, then torch's
    MultiProcessTestCase and MultiProcContinuousTest on gloo, which need the package expecttest.
    """
    from harness.cli.bench import bench_job

    return functools.partial(bench_job, Output(form, file, quiet), options)


cli.add_command(faults)
cli.add_command(mutate)
cli.add_command(plot)
