"""When two findings have the same root cause: by code and place, not by their numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from harness.findings import Finding

PLACELESS = frozenset({"timeout", "layer-mismatch", "init-mismatch"})
"""Codes of which a target has one at a time, wherever it shows."""


@dataclass(slots=True)
class Root:
    """A code, the lines that take part, and for gradients the kind of cause."""

    code: str
    places: set[tuple[str, int]] = field(default_factory=set)
    cause: str | None = None

    @classmethod
    def of(cls, finding: Finding) -> Self:
        """Return a finding's root."""
        places = {(op.file, op.line) for op in finding.operations if op.line > 0}
        cause = finding.cause.partition(":")[0] if finding.cause else None
        return cls(finding.code, places, cause)

    def same(self, other: Root, *, strictly: bool = False) -> bool:
        """Whether both are one: the same code, and a line in common where lines are known.

        ``strictly``, for shrinking: a cause that was shown for a gradient may not get lost.
        """
        if self.code != other.code:
            return False
        shown = self.code == "gradient-mismatch" and self.cause not in (None, "unknown")
        if strictly and shown and other.cause != self.cause:
            return False
        if self.code in PLACELESS or not self.places or not other.places:
            return True
        return bool(self.places & other.places)

    def merge(self, other: Root) -> None:
        """Take in the places where another case showed the same root."""
        self.places |= other.places
