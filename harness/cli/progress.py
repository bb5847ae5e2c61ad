"""Progress on a terminal, on stderr; nothing where nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harness.cli.output import Output
from harness.cli.stream import is_coloured

Advance = Callable[[int, int | None, str, str], None]


@contextmanager
def progress_bar(output: Output, name: str) -> Iterator[Advance | None]:
    """Draw a bar; yield what moves it: ``advance(done, of, name, detail)``, or None."""
    if not output.shows_progress:
        yield None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True, no_color=not is_coloured(sys.stderr))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[detail]}", style="dim"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(escape(name), total=None, detail="")

        def advance(done: int, of: int | None, name: str, detail: str) -> None:
            bar.update(
                task, total=of, completed=done, description=escape(name), detail=escape(detail)
            )

        yield advance
