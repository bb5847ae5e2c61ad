"""SARIF 2.1.0: one rule per finding code, one result per finding, at the user's own line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import __version__
from harness.codes import CODES, Code
from harness.findings import Finding, Operation, Report
from harness.report.text import describe_operation, render_finding, shown_path

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render_sarif(reports: Sequence[Report]) -> str:
    """Return the document, one run that holds all the reports."""
    driver = {
        "name": "harness",
        "version": __version__,
        "rules": [_rule(code) for code in CODES.values()],
    }
    results = [_result(report, finding) for report in reports for finding in report.findings]
    failed = [r for r in reports if r.outcome == "error" or r.error is not None]
    invocation: dict[str, Any] = {"executionSuccessful": not failed}
    if failed:
        invocation["toolExecutionNotifications"] = [
            {"level": "error", "message": {"text": report.error or "interrupted before it ended"}}
            for report in failed
        ]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [invocation],
        "results": results,
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _rule(code: Code) -> dict[str, Any]:
    return {
        "id": code.name,
        "shortDescription": {"text": code.summary},
        "fullDescription": {"text": " ".join(code.meaning.split())},
        "help": {"text": " ".join(code.fix.split())},
        "defaultConfiguration": {"level": code.severity},
    }


def _result(report: Report, finding: Finding) -> dict[str, Any]:
    places = [operation for operation in finding.operations if operation.line]
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "level": finding.severity,
        "message": {"text": render_finding(finding)},
        "locations": [_location(operation) for operation in places[:1]],
        "partialFingerprints": {"rootCause/v1": _fingerprint(report, finding)},
        "properties": {"target": report.target, "case": finding.case},
    }
    if finding.code in CODES:
        result["ruleIndex"] = list(CODES).index(finding.code)
    if places[1:]:
        related = [_location(operation) for operation in places[1:]]
        result["relatedLocations"] = related
    return result


def _location(operation: Operation) -> dict[str, Any]:
    text = f"rank {operation.rank}: {describe_operation(operation)} ({operation.state})"
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(operation.file)},
            "region": {"startLine": operation.line},
        },
        "logicalLocations": [{"name": operation.function, "kind": "function"}],
        "message": {"text": text},
    }


def _uri(file: str) -> str:
    shown = Path(shown_path(file))
    return shown.as_uri() if shown.is_absolute() else shown.as_posix().replace(" ", "%20")


def _fingerprint(report: Report, finding: Finding) -> str:
    """Name the root cause: the same from run to run, whatever case showed it."""
    lines = [report.target, finding.code, finding.cause or ""]
    lines += sorted({f"{shown_path(o.file)}:{o.function}:{o.op}" for o in finding.operations})
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]
