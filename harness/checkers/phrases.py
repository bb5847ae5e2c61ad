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


def a(word: str) -> str:
    """``a send``, ``an all_reduce``."""
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def do(ranks: Sequence[int]) -> str:
    """``rank 0 does``, ``ranks 0 and 1 do``."""
    return f"{ranks_text(ranks)} {verb(ranks, 'does', 'do')}"


def place(site: Site) -> str:
    """``file.py:12``."""
    return f"{site.file}:{site.line}"


def call(op: Op) -> str:
    """Name what the user called; of a batch, which of its two kinds it is."""
    if op.api == "batch_isend_irecv" and not op.is_collective:
        return f"batched i{op.kind}"
    return op.api


def operation(op: Op) -> Operation:
    """Return an operation as reports show it, at the line where its rank is."""
    blocked = op.state is State.BLOCKED or op.broken_off
    site = op.at if blocked else op.site
    waits = blocked and not op.blocking and op.wait_site is not None
    return Operation(
        rank=op.rank,
        op=f"{call(op)}, wait" if waits else call(op),
        peer=op.peer,
        tag=op.tag if not op.is_collective and op.tag else None,
        action=op.action,
        file=site.file,
        line=site.line,
        function=site.function,
        state=State.BLOCKED.value if blocked else op.state.value,
    )
