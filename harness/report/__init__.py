"""Reports in every form: text, JSON, JUnit, SARIF, GitHub annotations."""

from __future__ import annotations

import json
from collections.abc import Sequence

from harness.findings import Report

__all__ = ["dumps"]


def dumps(reports: Sequence[Report], form: str) -> str:
    """Return one document, ending in a newline; ``form`` is the command's ``--format``.

    JSON is one report's document, or ``{"schema": 1, "reports": […]}`` for several.
    """
    if form == "json":
        return _json(reports)
    if form == "junit":
        from harness.report.junit import render_junit

        return render_junit(reports)
    if form == "sarif":
        from harness.report.sarif import render_sarif

        return render_sarif(reports)
    if form == "github":
        from harness.report.github import render_github

        return render_github(reports)
    from harness.report.text import render_all

    return render_all(reports) + "\n"


def _json(reports: Sequence[Report]) -> str:
    if len(reports) == 1:
        return reports[0].dumps()
    document = {"schema": 1, "reports": [report.to_json() for report in reports]}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
