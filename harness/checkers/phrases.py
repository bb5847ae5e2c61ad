"""How findings name ranks, places and operations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.findings import Operation
from harness.trace import Op, Site, State


def join(words: Iterable[object]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *most, last = map(str, words)
    return f"{', '.join(most)} and {last}" if most else last


def ranks_text(ranks: Sequence[int]) -> str:
    """``rank 1``, ``ranks 0 and 2``."""
    return f"rank{'s' if len(ranks) > 1 else ''} {join(ranks)}"


def verb(ranks: Sequence[int], one: str, many: str) -> str:
    """Return the form of a verb that goes with so many ranks."""
    return one if len(ranks) == 1 else many


def do(ranks: Sequence[int]) -> str:
    """``rank 0 does``, ``ranks 0 and 1 do``."""
    return f"{ranks_text(ranks)} {verb(ranks, 'does', 'do')}"


def place(site: Site) -> str:
    """``file.py:12``."""
    return f"{site.file}:{site.line}"


def operation(op: Op) -> Operation:
    """Return an operation as reports show it, at the line where its rank is."""
    blocked = op.state is State.BLOCKED or op.broken_off
    site = op.at if blocked else op.site
    name = op.api if op.blocking or not blocked or op.wait_site is None else f"{op.api}, wait"
    return Operation(
        rank=op.rank,
        op=name,
        peer=op.peer,
        tag=op.tag if not op.is_collective and op.tag else None,
        action=op.action,
        file=site.file,
        line=site.line,
        function=site.function,
        state=State.BLOCKED.value if blocked else op.state.value,
    )
