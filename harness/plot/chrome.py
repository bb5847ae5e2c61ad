"""A plot as trace events, for Perfetto and chrome://tracing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from harness.plot.figures import Figures, Plotted
from harness.plot.placed import Placed
from harness.timeline import CHROME_UNIT_US


def to_chrome(plots: Sequence[Plotted]) -> dict[str, Any]:
    """Return a process for each plan, in it a row for each rank; one unit of time is a ms."""
    events = [e for process, plot in enumerate(plots) for e in _events(process, *plot)]
    return {"displayTimeUnit": "ms", "traceEvents": events}


def _events(process: int, placed: Placed, figures: Figures) -> Iterator[dict[str, Any]]:
    yield _named("process_name", placed.plan.schedule, process)
    critical, wrong = set(figures.path), placed.wrong()
    for rank in range(placed.plan.world):
        yield _named("thread_name", f"rank {rank}", process, rank)
        for at, (action, (start, end)) in enumerate(placed.running(rank)):
            if action.kind.is_comm:
                continue
            yield {
                "name": str(action),
                "cat": "invalid" if not wrong.isdisjoint({action, *action.parts}) else "compute",
                "ph": "X",
                "ts": start * CHROME_UNIT_US,
                "dur": (end - start) * CHROME_UNIT_US,
                "pid": process,
                "tid": rank,
                "args": {
                    "kind": action.kind.value,
                    "stage": [part.stage for part in action.parts],
                    "microbatch": [part.microbatch for part in action.parts],
                    "critical": (rank, at) in critical,
                },
            }
    for problem in placed.problems:
        row = placed.spans[problem.rank]
        yield {
            "name": f"{problem.action} {problem.reason}",
            "cat": "invalid",
            "ph": "i",
            "s": "t",
            "ts": (row[-1][1] if row else 0.0) * CHROME_UNIT_US,
            "pid": process,
            "tid": problem.rank,
        }


def _named(what: str, name: str, process: int, thread: int = 0) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
