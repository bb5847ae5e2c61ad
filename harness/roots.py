"""When two findings have the same root cause: by code, cause and place, not by their numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from harness.findings import Finding

PLACELESS = frozenset({"timeout", "layer-mismatch", "init-mismatch"})
"""Codes of which a target has one at a time, wherever it shows."""

Places = frozenset[tuple[str, int]]


@dataclass(slots=True)
class Root:
    """A code, the lines that take part, and the kind of cause where one was shown."""

    code: str
    places: Places = frozenset()
    cause: str | None = None
    shrunk: set[Places] = field(default_factory=set)
    """The lines that smaller cases of it have shown."""

    @classmethod
    def of(cls, finding: Finding) -> Self:
        """Return a finding's root."""
        places = frozenset((op.file, op.line) for op in finding.operations if op.line > 0)
        cause = finding.cause.partition(":")[0] if finding.cause else None
        if finding.code == "deadlock" and cause in ("needs-buffering", "missing-receive"):
            cause = "order"  # which has been shown to end where sends are buffered
        return cls(finding.code, places, None if cause == "unknown" else cause)

    def same(self, other: Root, *, strictly: bool = False) -> bool:
        """Whether both are one: the same code, no other cause shown, and the same lines.

        One may show fewer of the lines than the other. A line in common is not enough: all of a
        program's messages may go through one helper of its own. ``strictly``, for shrinking: a
        cause that was shown for a gradient may not get lost either.
        """
        if self.code != other.code or (self.cause and other.cause and self.cause != other.cause):
            return False
        if strictly and self.code == "gradient-mismatch" and self.cause and not other.cause:
            return False
        if self.code in PLACELESS or not self.places or not other.places:
            return True
        if self.places <= other.places or other.places <= self.places:
            return True
        return other.places in self.shrunk

    def merge(self, other: Root) -> None:
        """Remember where a smaller case showed the same root."""
        self.shrunk.add(other.places)
