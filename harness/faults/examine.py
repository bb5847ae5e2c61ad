"""Running one entry as a user would, and comparing what is found with its label."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness import api
from harness.case import Case, UsageError
from harness.faults.entry import Entry, Variant
from harness.findings import Finding, Report
from harness.options import SEMANTICS
from harness.worlds import WorldError

TIMEOUT_S = 20.0
CASES = 4  # of a schedule, besides the smallest that shows the fault
SIZES = 2  # larger worlds and numbers of chunks that a twin is tried on


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was made of one entry; picklable, and the row of its score.

    ``found`` is whether anything was, ``right_code`` whether it bears the label's code (and cause),
    ``right_place`` whether it names the label's ranks and lines. ``noise`` counts further errors,
    ``alarms`` are findings on the twin. ``elsewhere`` has the semantics under which the verdict is
    not the label's, as ``name: expected, got``.
    """

    id: str
    kind: str
    expected: str | None
    codes: tuple[str, ...]
    found: bool
    right_code: bool
    right_place: bool
    noise: int
    alarms: tuple[str, ...]
    seconds: float  # to the verdict on the faulty program
    elsewhere: tuple[str, ...] = ()
    why: tuple[str, ...] = ()  # what is not as labelled, in words
    unrun: str = ""  # why it could not be run

    def to_json(self) -> dict[str, Any]:
        """Return the score's form."""
        told = asdict(self)
        told["class"] = told.pop("kind")
        return told


def run_entry(
    entry: Entry,
    variant: Variant,
    *,
    backend: str = "sim",
    semantics: str | None = None,
    confirm: bool = False,
    isolated: bool = False,
) -> Report:
    """Run one of an entry's programs, on the smallest shape that shows the fault, and around it."""
    label = entry.label
    given = {"timeout": TIMEOUT_S, **label.options}
    if semantics is not None:
        given["semantics"] = semantics
    if backend != "sim":
        given.pop("semantics", None)
    common: dict[str, Any] = {"backend": backend, "confirm": confirm, "isolated": isolated}
    target = entry.target(variant)
    if not label.is_checked:
        if label.scope == "script":
            given["args"] = [variant, *given.get("args", ())]
        return api.run(target, label.world, **common, **given)
    assert label.chunks is not None
    more = 0 if variant == "faulty" else SIZES
    return api.check(
        target,
        world_size=f"{label.world}..{label.world + more}",
        chunks=f"{label.chunks}..{label.chunks + more}",
        **common,
        **{"cases": CASES, **given},
    )


def examine(entry: Entry, *, backend: str = "sim", all_semantics: bool = True) -> Verdict:
    """Run an entry and its twin, and say what is as labelled."""
    try:
        return _examined(entry, backend, all_semantics=all_semantics)
    except (UsageError, WorldError) as error:
        return not_examined(entry, str(error), backend)


def not_examined(entry: Entry, why: str, backend: str = "sim") -> Verdict:
    """Return the verdict on an entry that could not be run."""
    kind, code = entry.label.kind, entry.label.expected(backend)
    return Verdict(entry.id, kind, code, (), False, False, False, 0, (), 0.0, why=(why,), unrun=why)


def _examined(entry: Entry, backend: str, *, all_semantics: bool) -> Verdict:
    label = entry.label
    started = time.monotonic()
    report = run_entry(entry, "faulty", backend=backend)
    seconds = time.monotonic() - started
    expected = label.expected(backend)
    errors = [f for f in report.findings if f.severity == "error"]
    told = [f for f in report.findings if f.code == expected]
    finding = next(iter([*told, *errors, *report.findings]), None)
    why = _unlike(entry, finding, report) if expected is not None else []
    twin = run_entry(entry, "correct", backend=backend)
    alarms = [f"{f.code}: {f.message}" for f in twin.findings]
    alarms += [twin.error] if twin.error is not None else []
    right_code = finding is not None and finding.code == expected and not _cause(entry, finding)
    elsewhere = all_semantics and backend == "sim" and "semantics" not in label.options
    return Verdict(
        entry.id,
        label.kind,
        expected,
        tuple(f.code for f in report.findings),
        found=finding is not None,
        right_code=right_code if expected is not None else finding is None,
        right_place=right_code and not why if expected is not None else True,
        noise=len([f for f in errors if f is not finding]),
        alarms=tuple(alarms),
        seconds=seconds,
        elsewhere=tuple(_elsewhere(entry, finding)) if elsewhere else (),
        why=tuple(why),
    )


def _unlike(entry: Entry, finding: Finding | None, report: Report) -> list[str]:
    """Return in words where the finding is not what the label says."""
    label = entry.label
    if finding is None:
        return [f"nothing was found{f': {report.error}' if report.error else ''}"]
    why = []
    if finding.code != label.expected(report.backend):
        why.append(f"the code is {finding.code}")
    why += _cause(entry, finding)
    if label.ranks is not None and tuple(sorted(finding.ranks)) != label.ranks:
        why.append(f"the ranks are {list(finding.ranks)}, not {list(label.ranks)}")
    lines = {
        op.line for op in finding.operations if Path(op.file).resolve() == entry.path.resolve()
    }
    if entry.marks and not lines:
        why.append("no operation is in the entry's file")
    elif entry.marks and not lines <= entry.marks:
        stray = sorted(lines - entry.marks)
        why.append(f"it points at lines {stray}, not only at {sorted(entry.marks)}")
    for name, value in label.details.items():
        if (got := finding.details.get(name)) != value:
            why.append(f"details.{name} is {got!r}, not {value!r}")
    return why


def _cause(entry: Entry, finding: Finding) -> list[str]:
    cause = entry.label.cause
    if cause is None or finding.cause == cause:
        return []
    return [f"the cause is {finding.cause}, not {cause}"]


def _elsewhere(entry: Entry, finding: Finding | None) -> list[str]:
    """Return the semantics under which the verdict is not the label's."""
    wrong = []
    for semantics in SEMANTICS["sim"]:
        codes = {f.code for f in _under(entry, finding, semantics).findings}
        expected = entry.label.expected("sim", semantics)
        if (expected is None and codes) or (expected is not None and expected not in codes):
            got = ", ".join(sorted(codes)) or "nothing"
            wrong.append(f"{semantics}: {expected or 'nothing'}, got {got}")
    return wrong


def _under(entry: Entry, finding: Finding | None, semantics: str) -> Report:
    """Run a program under those semantics; of a schedule only the case that showed its fault."""
    if finding is None or not entry.label.is_checked:
        return run_entry(entry, "faulty", semantics=semantics)
    case = Case.parse(finding.case)
    return api.replay(case.with_(semantics=semantics, capacity=None), timeout=TIMEOUT_S)


def picture(report: Report) -> str:
    """Return what the ranks called in the smallest case of a report; "" where nothing is found."""
    from harness.options import DEFAULT_COSTS, costs_of
    from harness.session import Drawing

    if not report.findings:
        return ""
    drawing = Drawing(costs_of(DEFAULT_COSTS), messages=True)
    again = api.replay(report.findings[0].case, timeout=TIMEOUT_S, drawing=drawing)
    return str(again.tried.get("messages", ""))
