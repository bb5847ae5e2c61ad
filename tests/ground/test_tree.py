"""Rules that every file of the tree keeps."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = {".py", ".sh", ""}  # no suffix: the scripts and the Makefile
BUILT = {".git", ".venv", "build", "dist", "__pycache__"}

# Spelled in pieces, so that this file keeps the rules that it checks.
MACHINE_PATHS = [
    "/" + place for place in ("work/", "root/", "home/", "Users/", "opt/wheels", "opt/pypi")
]
REGISTRIES = [
    ".".join(name)
    for name in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("download", "pytorch", "org"),
        ("registry", "npmjs", "org"),
        ("deb", "debian", "org"),
    )
]


def files_of_the_project() -> list[Path]:
    """What git tracks or would track; all that is not built, where there is no git."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode == 0:
        paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    else:
        paths = [p for p in ROOT.rglob("*") if not BUILT & set(p.relative_to(ROOT).parts)]
    return sorted(p for p in paths if p.is_file())


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="ignore")


def lines_matching(pattern: str) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files_of_the_project()
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if re.search(pattern, line)
    ]


def test_no_code_file_reaches_400_lines() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(text_of(path).splitlines())
        for path in files_of_the_project()
        if path.suffix in CODE and path.name != "LICENSE"
    }
    assert lengths, "no file of the project was found"
    assert {name: length for name, length in lengths.items() if length >= 400} == {}


def test_no_file_names_a_place_on_one_machine() -> None:
    places = [*MACHINE_PATHS, str(ROOT)]
    pattern = r"(?<![\w.])(" + "|".join(map(re.escape, places)) + ")"
    assert lines_matching(pattern) == []


def test_no_file_names_the_host_of_a_registry() -> None:
    assert lines_matching("|".join(map(re.escape, REGISTRIES))) == []


def test_the_changelog_opens_with_an_unreleased_section_that_says_something() -> None:
    sections = re.split(r"^## ", text_of(ROOT / "CHANGELOG.md"), flags=re.MULTILINE)
    assert sections[1].startswith("[Unreleased]\n")
    assert re.search(r"^- \w", sections[1].replace("`", ""), flags=re.MULTILINE)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "LICENSE"])
def test_the_documents_of_the_root_are_there(name: str) -> None:
    assert len(text_of(ROOT / name).splitlines()) > 10


def test_the_readme_starts_newcomers_with_its_two_commands() -> None:
    readme = text_of(ROOT / "README.md")
    assert "make demo" in readme
    assert "make test" in readme
