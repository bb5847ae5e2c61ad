"""A report as text: each finding with its operations, cause, help and replay; then the sum.

Readable without colour; a terminal's colours are added to the same text.
"""

from __future__ import annotations

import os
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.findings import Finding, Operation, Report
from harness.report.coverage import (
    describe_compared,
    describe_runs,
    describe_time,
    describe_tried,
    not_proved,
)

_STYLES = {"error": "1;31", "warning": "1;33", "ok": "1;32", "dim": "2", "name": "1"}
_MESSAGES = {"F": "activation", "B": "gradient"}
SHOWN_CONSEQUENCES = 3


class _Paint:
    def __init__(self, color: bool) -> None:
        self._color = color

    def __call__(self, style: str, text: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self._color else text


def render(report: Report, *, color: bool = False, width: int | None = None) -> str:
    """Return the report's text, without a last newline.

    ``width`` wraps the sentences (never the operations, which stand in columns).
    """
    paint = _Paint(color)
    blocks = [render_finding(finding, color=color, width=width) for finding in report.findings]
    blocks.append("\n".join(_summary(report, paint, width)))
    return "\n\n".join(blocks)


def render_all(reports: Sequence[Report], *, color: bool = False, width: int | None = None) -> str:
    """Return several reports, one after another."""
    return "\n\n".join(render(report, color=color, width=width) for report in reports)


def render_finding(finding: Finding, *, color: bool = False, width: int | None = None) -> str:
    """Return one finding: what, where, why, what to do, how to see it again."""
    paint = _Paint(color)
    head = paint(finding.severity, f"{finding.severity}[{finding.code}]")
    lines = [f"{head}: {_shown(finding.message)}"]
    lines += _columns(finding.operations)
    lines += _evidence(finding.details)
    lines += _labelled("injected:", finding.details.get("injected"), paint, width)
    lines += _labelled("cause:", _shown(_cause(finding)), paint, width)
    lines += _consequences(finding.details.get("followed_by", []), paint, width)
    lines += _labelled("help:", _shown(finding.help), paint, width)
    lines += _labelled("confirmed on:", ", ".join(finding.confirmed_on), paint, width)
    if finding.case:
        lines.append(f"{paint('name', 'replay:')} harness replay {shlex.quote(finding.case)}")
    return "\n".join(lines)


def _consequences(followed: Sequence[str], paint: _Paint, width: int | None) -> Iterator[str]:
    """Yield what came of it, the first few."""
    for text in followed[:SHOWN_CONSEQUENCES]:
        yield from _labelled("then:", _shown(text), paint, width)
    if (more := len(followed) - SHOWN_CONSEQUENCES) > 0:
        yield from _labelled("then:", f"{more} more that follow from it", paint, width)


def _cause(finding: Finding) -> str:
    """Return the cause's name with its account, or whichever of them there is."""
    return ": ".join(part for part in (finding.cause, finding.details.get("why")) if part)


def _shown(text: str) -> str:
    """Name the files in a sentence as :func:`shown_path` does."""
    return text.replace(f"{Path.cwd()}{os.sep}", "")


def shown_path(file: str) -> str:
    """Name a file as the user would: relative when it lies below the working directory."""
    if not Path(file).is_absolute():
        return file
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else relative


def describe_operation(operation: Operation) -> str:
    """Say what a rank did, and to whom: ``isend to 1``, ``irecv from 0, wait``, ``all_reduce``."""
    text, _, wait = operation.op.partition(", ")
    if operation.peer is not None:
        text += f" {'from' if 'recv' in operation.op else 'to'} {operation.peer}"
    elif "recv" in operation.op:
        text += " from any rank"
    more = [text, f"tag {operation.tag}" if operation.tag else "", wait]
    return ", ".join(part for part in more if part)


def _columns(operations: Sequence[Operation]) -> list[str]:
    """Align: rank, what it did, the message's direction, its action, the place, the state."""
    states_differ = len({operation.state for operation in operations}) > 1
    rows = [_cells(operation, states_differ) for operation in operations]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    used = [column for column, width in enumerate(widths) if width]
    gaps = {0: "  ", 1: " ", 2: " ", 3: "   ", 4: "   ", 5: ""}
    # A row's columns that nobody uses leave no gap; the place stands clear of what precedes it.
    lines = []
    for row in rows:
        line = "  "
        for column, following in zip(used, [*used[1:], None], strict=True):
            gap = "   " if following == 4 else gaps[column]
            line += row[column].ljust(widths[column]) + ("" if following is None else gap)
        lines.append(line.rstrip())
    return lines


def _cells(operation: Operation, with_state: bool) -> tuple[str, ...]:
    action = operation.action or ""
    kind = action.partition("_")[2][:1]  # 0SEND_F1: F
    message = _MESSAGES.get(kind, "")
    did = describe_operation(operation) + ("," if message else "")
    site = ""
    if operation.line:
        site = f"{shown_path(operation.file)}:{operation.line} in {operation.function}"
    state = f"({operation.state})" if with_state else ""
    return f"rank {operation.rank}", did, message, action, site, state


def _evidence(details: dict[str, Any]) -> Iterator[str]:
    """Yield what of the details is meant for reading: tracebacks and output of the user's code."""
    for name in ("traceback", "stacks", "output"):
        value = details.get(name)
        if isinstance(value, dict):
            for rank, text in value.items():
                yield f"  {'rank ' if str(rank).isdecimal() else ''}{rank}:"
                yield from _block(text, "    ")
        elif value:
            if name == "output":
                yield "  last output:"
            yield from _block(value, "    " if name == "output" else "  ")


def _block(value: Any, indent: str) -> Iterator[str]:
    here = f"{Path.cwd()}/"
    text = value
    if not isinstance(value, str):  # a stack's lines, each beginning with its file
        text = "\n".join(str(line).removeprefix(here) for line in value)
    yield from (indent + line for line in text.rstrip("\n").splitlines())


def _labelled(label: str, text: str | None, paint: _Paint, width: int | None) -> list[str]:
    if not text:
        return []
    indent = " " * (len(label) + 1 if len(label) > 6 else 7)
    if width is not None:
        text = textwrap.fill(text, max(width - len(indent), 20), break_on_hyphens=False)
    first, *rest = text.splitlines()
    return [
        f"{paint('name', label)}{' ' * (len(indent) - len(label))}{first}",
        *(indent + line for line in rest),
    ]


def _summary(report: Report, paint: _Paint, width: int | None) -> Iterator[str]:
    yield headline(report, paint)
    if report.error is not None and report.failures:
        yield from _labelled("stopped:", report.error, paint, width)
    if report.cases.run == 0:
        return
    if report.command == "check":
        yield from _labelled("tried:", describe_tried(report.tried), paint, width)
        yield from _labelled("compared:", describe_compared(report.tried), paint, width)
        yield from _labelled("run:", describe_runs(report.tried), paint, width)
    else:
        yield from _labelled("injected:", report.tried.get("injected"), paint, width)
        yield from _labelled("ran on real ranks:", report.tried.get("on real ranks"), paint, width)
        yield from _labelled("virtual time:", describe_time(report.tried), paint, width)
        if trace := report.tried.get("trace"):
            differs = any(finding.code == "nondeterminism" for finding in report.findings)
            which = "of this run" if differs else "the same at every replay"
            yield from _labelled("trace:", f"{trace} ({which})", paint, width)
        if picture := report.tried.get("messages"):
            yield from ["", *picture.splitlines()]
    if report.cases.refused:
        yield f"{paint('name', 'refused by the target:')} {count(report.cases.refused, 'case')}"
        for message, times in sorted(report.refusals.items(), key=lambda item: -item[1]):
            yield f"  {times} × {' '.join(message.split())}"
    if report.outcome == "clean" and not report.findings:
        yield from _labelled("not proved:", not_proved(report), paint, width)


def headline(report: Report, paint: _Paint | None = None) -> str:
    """Return the one line that says how it ended: verdict, cases, backend, time."""
    paint = paint or _Paint(False)
    failures = len(report.failures)
    warnings = len(report.findings) - failures
    if failures:
        verdict = paint("error", count(failures, "finding"))
    elif report.error is not None:
        return f"{paint('name', report.target)}: {paint('error', 'error:')} {report.error}"
    else:
        verdict = paint("ok", "no finding") if not report.interrupted else "no finding so far"
    if warnings:
        verdict += f", {count(warnings, 'warning')}"
    cases = report.cases
    where = "in this run" if report.command == "run" else f"in {count(cases.run, 'case')}"
    if cases.failing and cases.run > 1:
        where += f" ({cases.failing} failing)"
    tail = ", interrupted" if report.interrupted else ""
    name = paint("name", report.target)
    return f"{name}: {verdict} {where} on {report.backend}, {report.elapsed_s:.1f} s{tail}"


def count(number: int, noun: str, plural: str = "") -> str:
    """Return the number with its noun, in the plural unless it is one."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
