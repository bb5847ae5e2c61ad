"""What the cases of a campaign covered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.execute import CaseResult
from harness.nemesis import parse


@dataclass(slots=True)
class Coverage:
    """Counts over the cases that ran, refused ones left out."""

    results: list[CaseResult] = field(default_factory=list)

    def add(self, result: CaseResult) -> None:
        """Count one case."""
        self.results.append(result)

    def tried(self) -> dict[str, Any]:
        """Return what goes into ``report.tried``: values tried, sorted, and counts of cases."""
        cases = [result.case for result in self.results]

        def values(name: str) -> list[Any]:
            return sorted({v for case in cases if (v := getattr(case, name)) is not None})

        uneven_batches = sum((case.batch or 0) % (case.chunks or 1) != 0 for case in cases)
        uneven_layers = sum((case.layers or 0) % case.world != 0 for case in cases)
        return {
            "world": values("world"),
            "chunks": values("chunks"),
            "samples": sorted({-(-(c.batch or 0) // (c.chunks or 1)) for c in cases if c.batch}),
            "uneven_batches": uneven_batches,
            "uneven_layers": uneven_layers,
            "dtype": values("dtype"),
            "steps": values("steps"),
            "optimizer": values("optimizer"),
            "workload": values("workload"),
            "delay": values("delay"),
            "policy": values("policy"),
            "nemesis": sorted({i.operator for c in cases for i in parse(c.nemesis or "")}),
            "compared": sum(result.compared for result in self.results),
            "bitwise": sum(result.bitwise for result in self.results),
            "runs": sum(result.runs for result in self.results),
        }
