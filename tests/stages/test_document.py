"""The step of docs/steps.md is right, as it is shown."""

from __future__ import annotations

import re
from pathlib import Path

import harness

PAGE = (Path(__file__).parents[2] / "docs" / "steps.md").read_text()
(SHOWN,) = re.findall(r"```python\n([\s\S]*?)```", PAGE)


def test_the_step_that_is_shown_is_clean_in_all_semantics(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(SHOWN)
    report = harness.check(
        f"{file}:step", world_size=(1, 2, 3), chunks=(1, 3), cases=6, confirm=False, strict=True
    )
    assert report.findings == []
    assert report.cases.clean == report.tried["bitwise"] == 6


def test_without_its_weights_it_is_not(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(SHOWN.replace(" * (size / batch.size)", ""))
    (finding,) = harness.check(
        f"{file}:step", world_size=2, chunks=2, cases=1, confirm=False
    ).findings
    assert finding.cause == "scale:2"


def test_every_file_that_is_linked_is_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", PAGE)
    assert links
    docs = Path(__file__).parents[2] / "docs"
    assert [link for link in links if not (docs / link).exists()] == []
