"""Every finding code has a page that says all it should."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

from harness.case import UsageError
from harness.codes import CODES, Code, find, severity_of
from harness.codes.page import render_list, render_markdown, render_page, sections

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


def test_a_code_is_found_however_it_is_spelled_and_the_nearest_is_suggested() -> None:
    assert find(" Shape_Mismatch ").name == "shape-mismatch"
    with pytest.raises(UsageError, match="did you mean orphan-wait"):
        find("orphan")
    with pytest.raises(UsageError, match="'harness explain' lists them all"):
        find("qqq")


def test_every_code_is_reported_by_something() -> None:
    root = Path(__file__).parents[2] / "harness"
    sources = "".join(p.read_text() for p in root.rglob("*.py") if p.parent.name != "codes")
    assert {name for name in CODES if not re.search(f'"{name}"', sources)} == set()


def test_the_documents_page_of_all_codes_is_what_the_codes_say() -> None:
    page = Path(__file__).parents[2] / "docs" / "codes.md"
    assert page.read_text() == render_markdown(), "python -m harness.codes.page > docs/codes.md"
