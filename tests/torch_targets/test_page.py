"""Every command of docs/targets.md does what the page says."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from harness.cli import main
from pipeline.plan import build_plan
from tests.torch_versions import since

AS_PINNED = since("2.9", "has other classes and other shapes")

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "targets.md").read_text()
COMMANDS = re.findall(r"^\$ (harness .*)$", PAGE, re.MULTILINE)
FILES = re.findall(r"```python\n# (\S+\.py)\n([\s\S]*?)```", PAGE)


def test_the_page_has_each_form_and_the_file_that_it_speaks_of() -> None:
    words = " ".join(COMMANDS)
    for form in (" 1f1b ", "examples/gpipe.py:step", "plan.csv", "pipelining:Schedule1F1B"):
        assert form in words
    assert [name for name, _ in FILES] == ["mine.py"]


@AS_PINNED
@pytest.mark.gloo
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_ends_as_the_page_says(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for name, text in FILES:
        (tmp_path / name).write_text(text)
    _, *arguments = shlex.split(command)
    plan, file = build_plan("zb-h1", 2, 4).to_csv(), tmp_path / "plan.csv"
    if arguments[0] == "check":
        file.write_text(plan)  # as the page's own command does
    monkeypatch.chdir(tmp_path)
    if arguments[0] == "check" and "1f1b" not in arguments:
        arguments += ["--in-process", "--no-confirm"]  # the same, without starting processes
    status = main(arguments)
    out, err = capsys.readouterr()
    expected = (1, True) if arguments[0] == "replay" else (0, False)
    assert (status, "uneven-microbatches" in out, err) == (*expected, ""), out
    if arguments[0] == "plot":
        assert file.read_text() == plan


def test_every_file_that_is_linked_is_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", PAGE)
    assert links
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
