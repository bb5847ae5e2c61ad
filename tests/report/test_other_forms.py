"""JSON, JUnit, SARIF and GitHub's annotations say what the text says, in their own forms."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from harness.codes import CODES
from harness.findings import Cases, Finding, Operation, Report
from harness.report import dumps

FINDING = Finding(
    "deadlock",
    "ranks 0 and 1 wait: 100%, \x00 <both>",
    "make one of them isend",
    ranks=(0, 1),
    operations=(
        Operation(0, "send", "my folder/a.py", 41, "step", "blocked", peer=1),
        Operation(1, "send", "/elsewhere/b.py", 57, "step", "blocked", peer=0),
    ),
    cause="needs-buffering",
    case="a.py:step world=2 chunks=2",
    confirmed_on=("gloo",),
    details={"cycle": [0, 1]},
)


def report(*findings: Finding, **values: Any) -> Report:
    counts = Cases(run=3, clean=3 - len(findings), failing=len(findings))
    return Report("a.py:step", "gloo", ("gloo",), findings=list(findings), cases=counts, **values)


def test_the_json_document_has_the_contracts_fields() -> None:
    document = json.loads(dumps([report(FINDING)], "json"))
    assert set(document) >= {"schema", "target", "backend", "semantics", "outcome", "cases"}
    assert set(document) >= {"elapsed_s", "findings"}
    assert document["outcome"] == "findings"
    assert document["cases"] == {"run": 3, "clean": 2, "failing": 1, "refused": 0}
    (finding,) = document["findings"]
    assert list(finding) == [
        *("code", "severity", "message", "ranks", "cause", "help", "case", "confirmed_on"),
        *("operations", "details"),
    ]
    assert finding["operations"][0] == {
        "rank": 0,
        "op": "send",
        "peer": 1,
        "file": "my folder/a.py",
        "line": 41,
        "function": "step",
        "state": "blocked",
    }


def test_several_reports_are_one_json_document() -> None:
    document = json.loads(dumps([report(), report(FINDING)], "json"))
    assert document["schema"] == 1
    assert [r["outcome"] for r in document["reports"]] == ["clean", "findings"]


def test_the_outcome_is_an_error_when_interrupted_before_any_finding() -> None:
    document = json.loads(dumps([report(interrupted=True)], "json"))
    assert (document["outcome"], document["interrupted"]) == ("error", True)
    assert report(FINDING, interrupted=True).exit_code == 1


def test_junit_has_a_suite_per_target_and_a_failure_per_finding() -> None:
    root = ET.fromstring(dumps([report(FINDING), report()], "junit"))
    first, second = root.findall("testsuite")
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "1", "0")
    (case,) = first.findall("testcase")
    failure = case.find("failure")
    assert failure is not None
    assert failure.text is not None
    assert case.get("name") == "deadlock"
    assert failure.get("message") == "ranks 0 and 1 wait: 100%, \ufffd <both>"
    assert "rank 0  send to 1" in failure.text
    assert second.find("testcase/failure") is None


def test_junit_tells_warnings_from_failures_and_errors() -> None:
    warning = FINDING.with_(severity="warning")
    passed = ET.fromstring(dumps([report(warning)], "junit"))
    assert passed.find("testsuite/testcase/failure") is None
    assert passed.find("testsuite/testcase/system-out") is not None
    strict = ET.fromstring(dumps([report(warning, strict=True)], "junit"))
    assert strict.find("testsuite/testcase/failure") is not None
    error = ET.fromstring(dumps([report(error="it refuses all")], "junit"))
    found = error.find("testsuite/testcase/error")
    assert found is not None
    assert found.get("message") == "it refuses all"


def test_sarif_has_what_version_2_1_0_requires() -> None:
    document = json.loads(dumps([report(FINDING), report()], "sarif"))
    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("sarif-2.1.0.json")
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "harness"
    assert [rule["id"] for rule in driver["rules"]] == list(CODES)
    assert all(rule["shortDescription"]["text"] for rule in driver["rules"])
    (result,) = run["results"]
    assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "deadlock"
    assert result["level"] == "error"
    assert result["message"]["text"].startswith("error[deadlock]")
    (place,) = result["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "my%20folder/a.py"
    assert place["physicalLocation"]["region"]["startLine"] == 41
    (related,) = result["relatedLocations"]
    assert related["physicalLocation"]["artifactLocation"]["uri"] == "file:///elsewhere/b.py"


def test_sarif_knows_a_finding_again_by_its_root_cause() -> None:
    def fingerprint(finding: Finding) -> str:
        document = json.loads(dumps([report(finding)], "sarif"))
        prints = document["runs"][0]["results"][0]["partialFingerprints"]
        return str(prints["rootCause/v1"])

    assert fingerprint(FINDING) == fingerprint(FINDING.with_(case="a.py:step world=4"))
    assert fingerprint(FINDING) != fingerprint(FINDING.with_(code="orphan-wait"))


def test_sarif_says_that_a_check_could_not_be_made() -> None:
    document = json.loads(dumps([report(error="it refuses all")], "sarif"))
    (invocation,) = document["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    assert invocation["toolExecutionNotifications"][0]["message"]["text"] == "it refuses all"


def test_github_annotates_the_line_and_escapes_what_it_must() -> None:
    finding = FINDING.with_(message="a: b, 100%")
    first, second = dumps([report(finding)], "github").splitlines()
    assert first.startswith(
        "::error file=my folder/a.py,line=41,title=deadlock%3A a%3A b%2C 100%25::error[deadlock]"
    )
    assert "%0A  rank 0  send to 1" in first
    assert second.startswith("a.py:step: 1 finding")
    error = dumps([report(error="it refuses all")], "github")
    assert "::error title=harness::a.py:step: it refuses all\n" in error


@pytest.mark.parametrize("form", ["text", "json", "junit", "sarif", "github"])
def test_every_form_ends_in_one_newline(form: str) -> None:
    text = dumps([report(FINDING)], form)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_paths_below_the_working_directory_are_told_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inside = FINDING.with_(
        operations=(Operation(0, "send", str(tmp_path / "a.py"), 1, "f", "blocked"),)
    )
    assert "file=a.py,line=1," in dumps([report(inside)], "github")
    assert "   a.py:1 in f" in dumps([report(inside)], "text")


def test_a_check_that_stopped_after_a_finding_says_so_in_every_form() -> None:
    stopped = report(FINDING, error="no more memory")
    assert json.loads(dumps([stopped], "json"))["error"] == "no more memory"
    (invocation,) = json.loads(dumps([stopped], "sarif"))["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    suite = ET.fromstring(dumps([stopped], "junit")).find("testsuite")
    assert suite is not None
    assert (suite.get("failures"), suite.get("errors")) == ("1", "1")
    assert "::error title=harness::a.py:step: no more memory\n" in dumps([stopped], "github")
