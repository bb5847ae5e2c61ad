"""Findings and the report they are gathered in (DESIGN: "Report", "Finding codes").

A finding is one root cause. What follows from it (a peer's closed connection, a wrong loss after
a message of the wrong size) is folded into it and not reported again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One rank's part in a finding, in the user's source."""

    rank: int
    op: str
    file: str
    line: int
    function: str
    state: str
    peer: int | None = None
    tag: int | None = None
    action: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the report's form; unknown optional fields are left out."""
        out: dict[str, Any] = {"rank": self.rank, "op": self.op}
        for name in ("peer", "tag", "action"):
            if (value := getattr(self, name)) is not None:
                out[name] = value
        out |= {"file": self.file, "line": self.line, "function": self.function}
        return out | {"state": self.state}


@dataclass(frozen=True, slots=True)
class Finding:
    """One root cause: what is wrong, where, why, what to do, how to see it again."""

    code: str
    message: str
    help: str
    ranks: tuple[int, ...] = ()
    operations: tuple[Operation, ...] = ()
    severity: Severity = "error"
    cause: str | None = None
    case: str = ""
    confirmed_on: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    time_ns: int = 0  # when it came true: the first failure by the clock is the cause

    def with_(self, **changes: Any) -> Finding:
        """Return a copy with those fields changed."""
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """Return the report's form (``schema: 1``)."""
        out: dict[str, Any] = {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "ranks": list(self.ranks),
        }
        if self.cause is not None:
            out["cause"] = self.cause
        return out | {
            "help": self.help,
            "case": self.case,
            "confirmed_on": list(self.confirmed_on),
            "operations": [operation.to_json() for operation in self.operations],
            "details": self.details,
        }


@dataclass(slots=True)
class Cases:
    """How many cases were run and how they ended."""

    run: int = 0
    clean: int = 0
    failing: int = 0
    refused: int = 0


@dataclass(slots=True)
class Report:
    """What a check or a run found; ``str(report)`` is what the command prints."""

    target: str
    backend: str
    semantics: tuple[str, ...]
    findings: list[Finding] = field(default_factory=list)
    cases: Cases = field(default_factory=Cases)
    elapsed_s: float = 0.0
    error: str | None = None
    refusals: dict[str, int] = field(default_factory=dict)  # the target's message → how often
    tried: dict[str, Any] = field(default_factory=dict)  # what the cases covered
    strict: bool = False  # warnings fail too
    interrupted: bool = False
    command: Literal["check", "run", "replay"] = "check"

    @property
    def ok(self) -> bool:
        """No error found (no warning either, when strict), and the check was made to its end."""
        return self.outcome == "clean"

    @property
    def failures(self) -> list[Finding]:
        """The findings that make the check fail."""
        return [f for f in self.findings if f.severity == "error" or self.strict]

    @property
    def outcome(self) -> Literal["clean", "findings", "error"]:
        """Whether there is a finding that fails; ``error`` when nothing could be said at all.

        A check that was interrupted before it found anything is no clean one.
        """
        if self.failures:
            return "findings"
        return "error" if self.error is not None or self.interrupted else "clean"

    @property
    def exit_code(self) -> int:
        """0 no finding, 1 findings, 2 could not check."""
        return {"clean": 0, "findings": 1, "error": 2}[self.outcome]

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data (``schema: 1``)."""
        out: dict[str, Any] = {
            "schema": 1,
            "target": self.target,
            "backend": self.backend,
            "semantics": list(self.semantics),
            "outcome": self.outcome,
            "cases": {
                "run": self.cases.run,
                "clean": self.cases.clean,
                "failing": self.cases.failing,
                "refused": self.cases.refused,
            },
            "elapsed_s": round(self.elapsed_s, 3),
            "findings": [finding.to_json() for finding in self.findings],
            "refusals": self.refusals,
            "tried": self.tried,
        }
        if self.error is not None:
            out["error"] = self.error
        if self.interrupted:
            out["interrupted"] = True
        return out

    def dumps(self) -> str:
        """Return the JSON text, one document, stable order."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n"

    def raise_if_findings(self) -> None:
        """Raise AssertionError with the report's text unless the report is ok."""
        if not self.ok:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        from harness.report.text import render

        return render(self)
