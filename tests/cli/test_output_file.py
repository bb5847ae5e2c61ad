"""``-o FILE``: whole or not there, and a report that cannot be filed is not lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Harness = Callable[..., Any]


def test_the_report_goes_to_the_file_and_its_headline_to_stderr(
    harness: Harness, tmp_path: Path
) -> None:
    file = tmp_path / "report.json"
    ended = harness("check", "1f1b", "--format", "json", "-o", file)
    assert (ended.status, ended.stdout) == (0, "")
    assert ended.stderr == "1f1b: no finding in 4 cases on gloo, 1.2 s\n"
    assert json.loads(file.read_text())["target"] == "1f1b"
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]
    assert harness("check", "1f1b", "-q", "-o", file).stderr == ""


def test_text_in_a_file_has_no_colours(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.cli.stream.is_terminal", lambda stream: True)
    harness("check", "1f1b", "-q", "-o", tmp_path / "report")
    assert (tmp_path / "report").read_text().startswith("1f1b: no finding")


def test_a_file_that_is_replaced_keeps_its_mode_and_a_link_stays_a_link(
    harness: Harness, tmp_path: Path
) -> None:
    file, link = tmp_path / "report", tmp_path / "link"
    file.touch(mode=0o640)
    link.symlink_to(file)
    harness("check", "1f1b", "-o", link)
    assert link.is_symlink()
    assert file.read_text().startswith("1f1b")
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_costs_status_2_and_the_report_comes_on_stdout(harness: Harness) -> None:
    ended = harness("check", "1f1b", "--format", "json", "-o", "/dev/full")
    assert ended.status == 2
    assert ended.stderr == (
        "error: cannot write /dev/full: No space left on device; the report is on standard output\n"
    )
    assert json.loads(ended.stdout)["outcome"] == "clean"


def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "report"
    file.write_text("old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    ended = harness("check", "1f1b", "-o", file)
    assert ended.status == 2
    assert ended.stdout.startswith("1f1b: no finding")
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_a_dash_is_standard_output(harness: Harness, tmp_path: Path) -> None:
    assert harness("check", "1f1b", "-o", "-").stdout.startswith("1f1b: no finding")
