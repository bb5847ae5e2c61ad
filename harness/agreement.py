"""How often a simulated case was run on real ranks too, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FIRST = 3  # of the first clean cases, which are the corners
EVERY = 100  # afterwards
LEAST_SECONDS = 10.0  # that must be left, where time is limited


@dataclass(slots=True)
class Agreement:
    """Counts of cases that both worlds ran."""

    compared: int = 0
    agreed: int = 0
    why_not: str | None = None

    def wants(self, number: int, seconds_left: float) -> bool:
        """Whether the clean case of that number is to be run on real ranks."""
        if seconds_left < LEAST_SECONDS:
            return False
        return self.compared < FIRST or number % EVERY == 0

    def add(self, *, agrees: bool) -> None:
        """Count a case."""
        self.compared += 1
        self.agreed += agrees

    def unavailable(self, why: str) -> None:
        """Note that there are no real ranks."""
        self.why_not = why

    def told(self) -> dict[str, Any]:
        """Return what goes into ``report.tried``."""
        out: dict[str, Any] = {}
        if self.compared:
            out["on_gloo"] = self.compared
            out["agreed"] = self.agreed
        if self.why_not is not None:
            out["not_on_gloo"] = self.why_not
        return out
