"""One finding code and its page."""

from __future__ import annotations

from dataclasses import dataclass, fields

from harness.findings import Severity


@dataclass(frozen=True, slots=True)
class Code:
    """What a finding code means, for whoever meets it in a report.

    ``example`` and ``instead`` are Python; ``backends`` are the worlds that can show it.
    """

    name: str
    summary: str
    meaning: str
    why: str
    example: str
    instead: str
    fix: str
    backends: tuple[str, ...]
    severity: Severity = "error"

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, str):
                object.__setattr__(self, field.name, value.strip())
