"""The file that docs/own-model.md shows, and variants of it, as targets."""

from __future__ import annotations

import re
from pathlib import Path

import harness
from harness.findings import Finding

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "own-model.md").read_text()
(SHOWN,) = re.findall(r"```python\n([\s\S]*?)```", PAGE)


def write(folder: Path, *changes: tuple[str, str], text: str = SHOWN) -> str:
    """Write the file with its text changed, each piece in one place; return the target."""
    for old, new in changes:
        assert text.count(old) == 1, f"{text.count(old)} times: {old}"
        text = text.replace(old, new)
    path = folder / "own.py"
    path.write_text(text)
    return f"{path}:step"


def case_line(target: str, world: int = 3, chunks: int = 2, batch: int = 5, **more: object) -> str:
    shown = {"steps": 2, "dtype": "float64", "optimizer": "sgd", "seed": 1} | more
    values = " ".join(f"{name}={value}" for name, value in shown.items())
    return f"{target} world={world} chunks={chunks} batch={batch} {values}"


def findings(target: str, world: int = 3, **more: object) -> list[Finding]:
    """Run one case of a file's step; return what is found."""
    return harness.replay(case_line(target, world, **more)).findings  # type: ignore[arg-type]


def only(target: str, world: int = 3, **more: object) -> Finding:
    (finding,) = findings(target, world, **more)
    return finding
