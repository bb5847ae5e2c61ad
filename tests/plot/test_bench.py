"""bench/plans.py prints a row for each schedule and size, and writes the same as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench" / "plans.py"


def test_the_figures_are_printed_and_written(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    command = [
        sys.executable,
        str(BENCH),
        "zbv",
        "dualpipe",
        "--size",
        "9",
        "64",
        "--torch-limit",
        "60",
    ]
    done = subprocess.run(
        [*command, "--json", str(file)], capture_output=True, text=True, timeout=110, check=True
    )
    head, zbv, dualpipe = done.stdout.splitlines()
    assert head.split()[:3] == ["schedule", "size", "actions"]
    assert zbv.split()[:4] == ["zbv", "9", "x", "64"]
    assert "two directions meet in the middle of an even world: got world 9" in dualpipe
    figures, refused = json.loads(file.read_text())
    assert figures["actions"] == 9 * 2 * 64 * 3
    assert set(figures["torch"]["seconds"]) == {"lower", "simulate"}
    assert figures["torch_ratio"] > 0
    assert "failed" in refused
