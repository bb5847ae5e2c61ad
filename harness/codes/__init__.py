"""Every finding code, documented once: ``harness explain``, SARIF's rules and severities."""

from __future__ import annotations

import difflib

from harness.case import UsageError
from harness.codes import collectives, endings, messages, numerics, plans, requests
from harness.codes.code import Code
from harness.findings import Severity

__all__ = ["CODES", "Code", "find", "severity_of"]

CODES: dict[str, Code] = {
    code.name: code
    for module in (messages, collectives, requests, endings, numerics, plans)
    for code in module.CODES
}


def find(name: str) -> Code:
    """Look a code up; UsageError suggests the nearest one."""
    wanted = name.strip().lower().replace("_", "-")
    if wanted in CODES:
        return CODES[wanted]
    close = difflib.get_close_matches(wanted, CODES, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise UsageError(f"there is no finding code {name!r}: {hint}'harness explain' lists them all")


def severity_of(name: str) -> Severity:
    """Return how a code's findings count unless the checker knows better."""
    return CODES[name].severity
