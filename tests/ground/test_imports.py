"""Imports point one way, and the pure parts stay pure."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_TORCH = [
    "pipeline",
    "pipeline.actions",
    "pipeline.plan",
    "pipeline.schedules",
    "pipeline.lower",
    "harness",
    "harness.trace",
    "harness.findings",
    "harness.pytest_plugin",  # pytest loads it in every project of a user
]
PROCESS_MODULES = {"multiprocessing", "psutil", "signal", "subprocess"}


def imported_names(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in the file it does so."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def offenders(folder: str, forbidden: set[str]) -> list[str]:
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert paths, f"{folder} has no files"
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in paths
        for name in imported_names(path)
        if name.split(".")[0] in forbidden
    ]


def test_pipeline_never_imports_the_harness() -> None:
    assert offenders("pipeline", {"harness"}) == []


def test_no_schedule_mentions_torch() -> None:
    assert offenders("pipeline/schedules", {"torch"}) == []


def test_no_checker_touches_a_process() -> None:
    assert offenders("harness/checkers", PROCESS_MODULES) == []


def test_no_package_imports_the_tests() -> None:
    for folder in ("pipeline", "harness"):
        assert offenders(folder, {"tests", "conftest"}) == []


@pytest.mark.parametrize("module", WITHOUT_TORCH)
def test_importing_it_does_not_import_torch(module: str) -> None:
    program = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr or f"{module} imports torch"
