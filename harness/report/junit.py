"""JUnit XML: one suite per target, one test case per finding; a clean target is one that passed."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from harness.findings import Finding, Report
from harness.report.text import headline, render_finding

# What XML 1.0 cannot hold, even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(reports: Sequence[Report]) -> str:
    """Return the document; warnings that do not fail are test cases that passed, with output."""
    root = ET.Element("testsuites", name="harness")
    for report in reports:
        root.append(_suite(report))
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, "unicode") + "\n"


def _suite(report: Report) -> ET.Element:
    suite = ET.Element("testsuite", name=_clean(f"harness {report.command} {report.target}"))
    properties = ET.SubElement(suite, "properties")
    for name, value in (("backend", report.backend), ("semantics", ",".join(report.semantics))):
        ET.SubElement(properties, "property", name=name, value=_clean(value))
    failing = report.failures
    for finding in report.findings:
        _finding(suite, report, finding, fails=finding in failing)
    stopped = report.outcome == "error" or report.error is not None
    if stopped or not report.findings:
        case = _case(suite, report, report.command)
        if stopped:
            message = report.error or "interrupted before it ended"
            ET.SubElement(case, "error", type="error", message=_clean(message)).text = ""
        else:
            ET.SubElement(case, "system-out").text = _clean(headline(report))
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("failures", str(len(failing)))
    suite.set("errors", str(len(suite.findall("testcase/error"))))
    suite.set("skipped", "0")
    suite.set("time", f"{report.elapsed_s:.3f}")
    return suite


def _finding(suite: ET.Element, report: Report, finding: Finding, *, fails: bool) -> None:
    case = _case(suite, report, finding.code)
    for operation in finding.operations[:1]:
        case.set("file", _clean(operation.file))
        case.set("line", str(operation.line))
    text = _clean(render_finding(finding))
    if fails:
        message = _clean(finding.message)
        ET.SubElement(case, "failure", type=finding.code, message=message).text = text
    else:
        ET.SubElement(case, "system-out").text = text


def _case(suite: ET.Element, report: Report, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=_clean(report.target), name=name)


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
