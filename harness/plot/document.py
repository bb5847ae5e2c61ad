"""A plot as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from harness.findings import Finding
from harness.plot.figures import Figures, Plotted, differences
from harness.plot.grid import Grid
from harness.plot.limits import GRID_CELLS, PATH_ACTIONS
from harness.plot.placed import Placed
from harness.timeline import Costs


def to_json(
    placed: Placed, figures: Figures, findings: Sequence[Finding], grid: Grid
) -> dict[str, Any]:
    """Return one plan as plain data; all times are in the unit of the costs."""
    plan, bubble, verdicts = placed.plan, placed.bubble, figures.verdicts
    omitted = _omitted(placed, figures, grid)
    ranks = range(plan.world)
    return {
        "schedule": plan.schedule,
        "world": plan.world,
        "chunks": plan.chunks,
        "costs": _costs(placed.costs),
        "makespan": _plain(placed.makespan),
        "idle": [_plain(idle) for idle in placed.idle],
        "bubble": {"of_total": bubble.of_total, "of_ideal": bubble.of_ideal},
        "peak_in_flight": list(placed.peaks),
        "policy": None if verdicts is None else verdicts.policy,
        "semantics": None if verdicts is None else verdicts.semantics,
        "critical_path": None if "critical_path" in omitted else figures.path.names,
        "grid": None if "grid" in omitted else [grid.cells(placed, rank) for rank in ranks],
        "omitted": omitted,
        "findings": [finding.to_json() for finding in findings],
    }


def _omitted(placed: Placed, figures: Figures, grid: Grid) -> dict[str, str]:
    """Say of each field that is left out why, and where else it is."""
    found = {}
    ranks, columns = placed.plan.world, grid.columns(placed)
    if ranks * columns > GRID_CELLS:
        found["grid"] = (
            f"{ranks} ranks x {columns} columns are over {GRID_CELLS} cells: --format csv has the "
            "actions in order"
        )
    if len(figures.path) > PATH_ACTIONS:
        found["critical_path"] = f"{len(figures.path)} actions are over {PATH_ACTIONS}"
    return found


def both_to_json(plots: Sequence[dict[str, Any]], pair: Sequence[Plotted]) -> dict[str, Any]:
    """Return two plans, and how their figures differ."""
    different = [
        {
            "name": each.name,
            "first": _plain(each.first),
            "second": _plain(each.second),
            "change": _plain(each.change),
        }
        for each in differences(*pair)
    ]
    return {"plots": list(plots), "differences": different}


def dumps(document: dict[str, Any]) -> str:
    """Print a document readably: a field a line, a rank of the grid a line."""
    return _dumps(document, "") + "\n"


def _dumps(value: Any, indent: str) -> str:
    deeper = indent + "  "
    if isinstance(value, dict) and value:
        items = (f"{json.dumps(key)}: {_dumps(each, deeper)}" for key, each in value.items())
        return "{\n" + ",\n".join(deeper + item for item in items) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        items = (_dumps(each, deeper) for each in value)
        return "[\n" + ",\n".join(deeper + item for item in items) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)


def _costs(costs: Costs) -> dict[str, float | None]:
    return {kind: _plain(costs.of(kind)) for kind in ("F", "B", "I", "W")}


def _plain(value: float | None) -> float | None:
    """Return a whole number as one, and others without what adding them up has left behind."""
    if value is None:
        return None
    return int(value) if float(value).is_integer() else round(value, 9)
