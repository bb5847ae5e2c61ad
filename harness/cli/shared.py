"""The options that commands share, and what they are called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from harness.cli.output import FORMATS

Job = Callable[[], int]
Function = TypeVar("Function", bound=Callable[..., Any])


def together(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Make several options one decorator, in the order in which help shows them."""

    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


# Values are text here: harness.options reads them, and says what is wrong in the same words
# to the command and to Python.
world_options = together(
    click.option("--backend", default="sim", show_default=True, help="sim, gloo or nccl."),
    click.option(
        "--semantics",
        metavar="NAME",
        help="How simulated sends behave: gloo, buffered, nccl-eager, nccl-lazy  [default: all]",
    ),
    click.option(
        "--capacity", metavar="BYTES", help="What NCCL takes before a receive: 0, inf, a number."
    ),
    click.option(
        "--isolated/--in-process",
        default=True,
        show_default=True,
        help="Simulate in a process of its own, which the program may take down.",
    ),
    click.option(
        "--confirm/--no-confirm",
        default=True,
        show_default=True,
        help="Run what is found, and some of what is not, on real gloo ranks too.",
    ),
)
seed_option = together(
    click.option("--seed", default="0", show_default=True, help="Decides all that is drawn."),
)
nemesis_option = together(
    click.option(
        "--nemesis",
        metavar="KINDS",
        help="Faults from outside, drawn by the seed: delay, pause, slow-link, reorder, kill, "
        "drop, duplicate, corrupt, full-disk; harmless, all; or as kill@1.3.",
    ),
)
watch_options = together(
    click.option(
        "--timeout",
        default="60",
        metavar="S",
        show_default=True,
        help="Seconds without any progress, after which ranks are given up.",
    ),
    click.option("--strict", is_flag=True, help="Warnings fail too."),
)
time_options = together(
    click.option(
        "--cost",
        metavar="COSTS",
        default="F=1,B=2",
        show_default=True,
        help="Virtual time of F, B, I, W, latency; bandwidth in bytes.",
    ),
    click.option(
        "--timeline", metavar="FILE", help="Write the ranks' virtual time there, for Perfetto."
    ),
    click.option("--messages", is_flag=True, help="Draw the ranks' calls, and who met whom."),
)
report_options = together(
    click.option(
        "--format",
        "form",
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
        help="The report's form.",
    ),
    click.option("-o", "--output", "file", metavar="FILE", help="Write the report there."),
    click.option("-q", "--quiet", is_flag=True, help="Only findings: no progress, no output."),
)

form_options = together(
    click.option(
        "--format",
        "form",
        type=click.Choice(("text", "json")),
        default="text",
        show_default=True,
        help="The form of what is printed.",
    ),
    click.option("-o", "--output", "file", metavar="FILE", help="Write it there."),
)
