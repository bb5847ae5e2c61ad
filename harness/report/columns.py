"""Tables of text: cells in columns, two spaces apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def aligned(rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> Iterator[str]:
    """Yield the rows with their cells aligned: the columns ``left`` to the left, figures right.

    A negative column counts from the last.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    to_left = {column % len(widths) for column in left}
    for row in rows:
        cells = [
            cell.ljust(width) if column in to_left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
