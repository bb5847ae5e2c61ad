"""What two plans' figures differ in, as rows of a table."""

from __future__ import annotations

from collections.abc import Sequence

from harness.plot.figures import Difference, fraction, number


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
