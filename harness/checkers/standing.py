"""Faults that stand as soon as they are posted: what follows from them need not be waited for."""

from __future__ import annotations

from harness.checkers.mismatches import check_collectives, check_messages
from harness.checkers.requests import check_dropped
from harness.findings import Finding
from harness.trace import Trace


def standing_faults(trace: Trace, backend: str = "gloo") -> list[Finding]:
    """Return the errors that are certain already, whatever the ranks do next."""
    found = check_collectives(trace) + check_messages(trace) + check_dropped(trace, backend)
    return [finding for finding in found if finding.severity == "error"]
