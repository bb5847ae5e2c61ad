"""Every finding code has a page that says all it should."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

from harness.case import UsageError
from harness.codes import CODES, Code, find, severity_of
from harness.codes.page import is_available, render_list, render_page, sections

# DESIGN's table of finding codes.
ERRORS = [
    *("deadlock", "orphan-wait", "collective-mismatch", "shape-mismatch", "dtype-mismatch"),
    *("message-swap", "unreceived-message", "dropped-request", "buffer-overwrite", "early-read"),
    *("early-destroy", "nccl-hazard", "invalid-argument", "rank-error", "rank-death", "timeout"),
    *("init-mismatch", "layer-mismatch", "loss-mismatch", "gradient-mismatch"),
    *("parameter-mismatch", "plan-invalid", "memory-bound", "nondeterminism"),
]
WARNINGS = ["collective-skew", "unawaited-request"]


def test_the_codes_are_those_of_the_design() -> None:
    assert sorted(CODES) == sorted(ERRORS + WARNINGS)
    assert [name for name in CODES if severity_of(name) == "warning"] == WARNINGS


@pytest.mark.parametrize("code", CODES.values(), ids=list(CODES))
def test_a_page_has_every_section(code: Code) -> None:
    for field in fields(code):
        assert getattr(code, field.name), f"{code.name} has no {field.name}"
    page = render_page(code)
    assert page.startswith(f"{code.name} ({code.severity})\n{code.summary}\n")
    for title, text in sections(code):
        assert f"\n{title}\n  {text.splitlines()[0]}" in page
    assert not code.summary.endswith(".")
    assert max(map(len, page.splitlines())) <= 100


@pytest.mark.parametrize("code", CODES.values(), ids=list(CODES))
def test_both_examples_are_python_and_differ(code: Code) -> None:
    for example in (code.example, code.instead):
        ast.parse(example.replace("…", "..."))
    assert code.example != code.instead


def test_the_list_has_a_line_for_each_code() -> None:
    lines = render_list().splitlines()
    assert [line.split()[0] for line in lines[: len(CODES)]] == list(CODES)
    assert max(map(len, lines)) <= 100


def test_a_backend_to_come_is_named_as_such() -> None:
    from harness.worlds.backends import BACKENDS

    page = render_page(CODES["early-read"])
    assert ("sim (not available yet)" in page) is ("sim" not in BACKENDS)


def test_a_code_is_found_however_it_is_spelled_and_the_nearest_is_suggested() -> None:
    assert find(" Shape_Mismatch ").name == "shape-mismatch"
    with pytest.raises(UsageError, match="did you mean orphan-wait"):
        find("orphan")
    with pytest.raises(UsageError, match="'harness explain' lists them all"):
        find("qqq")


def test_a_code_that_nothing_reports_yet_says_so_and_only_that() -> None:
    root = Path(__file__).parents[2] / "harness"
    sources = "".join(p.read_text() for p in root.rglob("*.py") if p.parent.name != "codes")
    named = {name for name in CODES if re.search(f'"{name}"', sources)}
    assert {name for name, code in CODES.items() if is_available(code)} == named
    for line in render_list().splitlines()[: len(CODES)]:
        assert ("not available yet" in line) is (line.split()[0] not in named)
    for code in CODES.values():
        assert ("nothing yet" in render_page(code)) is (code.name not in named)
