"""What the README shows is what happens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CONSOLE = re.findall(r"```console\n\$ (.*)\n([\s\S]*?)```", README)
PYTHON = re.findall(r"```python\n([\s\S]*?)```", README)
COMMANDS = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def run(command: list[str], folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PATH": COMMANDS, "COLUMNS": "200"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240
    )


def without_times(text: str) -> str:
    return re.sub(r"\d+\.\d s\b", "T s", text).strip()


@pytest.mark.gloo
@pytest.mark.parametrize(("command", "shown"), CONSOLE, ids=[command for command, _ in CONSOLE])
def test_each_command_prints_what_is_shown(command: str, shown: str) -> None:
    done = run(command.split())
    assert without_times(done.stdout) == without_times(shown)
    assert done.stderr == ""
    assert done.returncode == 1


@pytest.mark.gloo
def test_the_python_example_passes() -> None:
    done = run([sys.executable, "-c", PYTHON[0]])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.gloo
def test_the_pytest_example_passes_on_each_world_size(tmp_path: Path) -> None:
    (tmp_path / "test_example.py").write_text(PYTHON[1])
    done = run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], tmp_path)
    assert "2 passed" in done.stdout, done.stdout


def test_every_file_that_is_linked_is_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert [link for link in links if not (ROOT / link).exists()] == []
