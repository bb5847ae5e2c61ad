"""What is told of a plan beside its drawing, and how two plans differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.hazards.verdicts import Verdicts, judge
from harness.plot.bubble import Sources, sources
from harness.plot.causes import Causes
from harness.plot.path import Path, critical_path
from harness.plot.placed import Placed


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one plan in time."""

    sources: tuple[Sources, ...]
    """Per rank."""
    path: Path
    """The critical path."""
    verdicts: Verdicts | None
    """What happens under each semantics; None of an invalid plan, which cannot be run."""


Plotted = tuple[Placed, Figures]
"""A plan in time, with its figures: what the drawings are made of."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure of two plans; None where it cannot be had."""

    name: str
    first: float | None
    second: float | None

    @property
    def change(self) -> float | None:
        """The second less the first."""
        if self.first is None or self.second is None:
            return None
        return round(self.second - self.first, 9)


def measure(placed: Placed) -> Figures:
    """Return the figures, in time linear in the plan's length."""
    causes = Causes(placed)
    idle = tuple(sources(placed, causes, rank) for rank in range(placed.plan.world))
    path = critical_path(placed, causes)
    del causes  # it is large, and so is what comes
    return Figures(idle, path, None if placed.problems else judge(placed.plan))


def differences(first: Plotted, second: Plotted) -> list[Difference]:
    """Return the figures of two plans side by side."""
    pairs = zip(_told(first), _told(second), strict=True)
    return [Difference(name, a, b) for (name, a), (_, b) in pairs]


def caution(plots: Sequence[Plotted]) -> str:
    """Say why two plans' times do not compare as they are; empty where they do."""
    held = [placed.plan.stages // placed.plan.world for placed, _ in plots]
    if len(set(held)) == 1:
        return ""
    told = (
        f"{p.plan.schedule} has {count} on a rank"
        for (p, _), count in zip(plots, held, strict=True)
    )
    return f"costs are those of one stage, whatever its size: {', '.join(told)}"


def _told(plot: Plotted) -> list[tuple[str, float | None]]:
    placed, figures = plot
    return [
        ("makespan", placed.makespan),
        ("idle, all ranks", round(sum(placed.idle), 9)),
        ("idle, most on a rank", max(placed.idle)),
        ("bubble of total time", placed.bubble.of_total),
        ("bubble of ideal time", placed.bubble.of_ideal),
        ("peak in flight", max(placed.peaks)),
        ("critical path, actions", len(figures.path)),
    ]


def number(value: float | None) -> str:
    """Print a time or a count: whole where it is whole, ``-`` for none."""
    if value is None:
        return "-"
    return str(round(value)) if float(value).is_integer() else f"{value:.6g}"


def fraction(value: float | None) -> str:
    """Print a fraction."""
    return "-" if value is None else f"{value:.4f}"
