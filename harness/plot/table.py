"""Tables of text: the first column to the left, figures to the right, a last sentence as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.plot.figures import Difference, fraction, number


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Align the rows' cells."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    for row in rows:
        cells = [
            cell.ljust(width) if column in (0, last) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def difference_rows(
    names: Sequence[str], differences: Sequence[Difference]
) -> list[tuple[str, ...]]:
    """Return two plans' figures beside each other, and what the second has more."""
    rows: list[tuple[str, ...]] = [("", *names, "difference")]
    for each in differences:
        show = fraction if each.name.startswith("bubble") else number
        change = (
            "-" if each.change is None else f"{'+' if each.change > 0 else ''}{show(each.change)}"
        )
        rows.append((each.name, show(each.first), show(each.second), change))
    return rows
