"""GitHub's workflow commands: an annotation at each finding's line, and a line per report."""

from __future__ import annotations

from collections.abc import Sequence

from harness.findings import Finding, Report
from harness.report.text import headline, render_finding, shown_path


def render_github(reports: Sequence[Report]) -> str:
    """Return ``::error file=…,line=…,title=…::…`` lines, then each report's headline."""
    lines = []
    for report in reports:
        lines += [_annotation(finding) for finding in report.findings]
        if report.outcome == "error" or report.error is not None:
            message = report.error or "interrupted before it ended"
            lines.append(f"::error title=harness::{_data(f'{report.target}: {message}')}")
        lines.append(headline(report))
    return "\n".join(lines) + "\n"


def _annotation(finding: Finding) -> str:
    properties = []
    for operation in finding.operations[:1]:
        properties.append(f"file={_property(shown_path(operation.file))}")
        properties.append(f"line={operation.line}")
    properties.append(f"title={_property(f'{finding.code}: {finding.message}')}")
    return f"::{finding.severity} {','.join(properties)}::{_data(render_finding(finding))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
