"""The figures as a table of plain text."""

from __future__ import annotations

from harness.bench.case import described
from harness.bench.measure import Bench, Figure, machine
from harness.report.columns import aligned

_HEAD = ("world", "contender", "cases", "seconds", "cases/s", "first case s", "further case s")


def render(bench: Bench) -> str:
    """Return the table, with a line for each figure and why some are not there."""
    peers = bench.peers()
    rows = [(*_HEAD, *(f"× {peer}" for peer in peers))]
    rows += [_row(bench, figure, peers) for figure in bench.figures]
    lines = [
        f"{described()}, loss and gradients against the monolith",
        "start-up counted, sim in all semantics and interleavings; "
        f"up to {bench.options.cases} cases and {bench.options.seconds:g} s each",
        f"on {_machine()}",
        "",
        *aligned(rows, left=(1,)),
    ]
    notes = [f"  {note}" for note in _notes(bench)]
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def _machine() -> str:
    told = machine()
    return f"{told['cores']} cores, python {told['python']}, torch {told['torch']}"


def _row(bench: Bench, figure: Figure, peers: list[str]) -> tuple[str, ...]:
    ratios = [
        _number(bench.ratio(figure, peer)) if figure.kind == "world" else "" for peer in peers
    ]
    if not figure.cases:
        shown = "failed" if figure.available else "not available"
        return (str(figure.world), figure.contender, shown, "", "", "", "", *ratios)
    cases = f"{figure.cases}{' (limit)' if figure.cut_short else ''}"
    return (
        str(figure.world),
        figure.contender,
        cases,
        _number(figure.elapsed_s),
        _number(figure.cases_per_s),
        _number(figure.first_case_s),
        _number(figure.further_case_s),
        *ratios,
    )


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _notes(bench: Bench) -> list[str]:
    """Say once of each contender why figures of it are missing."""
    told: dict[tuple[str, str], list[int]] = {}
    for figure in bench.figures:
        if figure.error is not None:
            told.setdefault((figure.contender, figure.error), []).append(figure.world)
    available = {f.contender for f in bench.figures if f.available}
    notes = []
    for (contender, error), worlds in told.items():
        where = f", {', '.join(map(str, worlds))} ranks" if contender in available else ""
        state = "failed" if contender in available else "not available"
        notes.append(f"{contender}{where}: {state}: {error}")
    return notes
