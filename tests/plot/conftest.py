"""The command, run in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main

PLANS = """\
def gpipe(rank, world_size, chunks):
    for microbatch in range(chunks):
        yield f"{rank}F{microbatch}"
    for microbatch in range(chunks):
        yield f"{rank}B{microbatch}"


def stuck(rank, world_size, chunks):
    for microbatch in range(chunks):
        yield f"{rank}F{microbatch}"
        yield f"{rank}B{microbatch}" if rank else f"{rank}B{chunks - 1 - microbatch}"


def refusing(rank, world_size, chunks):
    raise ValueError("chunks must be even")


def raising(rank, world_size, chunks):
    yield {}["F"]


def junk(rank, world_size, chunks):
    yield "forward"


def step(stage, comms, batch, chunks):
    return None
"""


@dataclass
class Ended:
    """How the command ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """What was printed, read."""
        return json.loads(self.stdout)


Plot = Callable[..., Ended]


@pytest.fixture
def plot(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Plot:
    monkeypatch.setattr("harness.cli.interrupts.install", lambda: None)
    monkeypatch.setattr("harness.cli._close_worlds", lambda: None)  # the next test's is warm

    def run(*args: str | Path) -> Ended:
        status = main(["plot", *map(str, args)])
        out, err = capsys.readouterr()
        return Ended(status, out, err)

    return run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with plans of a user's, as functions and as CSV."""
    (tmp_path / "mine.py").write_text(PLANS)
    (tmp_path / "good.csv").write_text("0F0,0F1,,0B0,0B1\n,1F0,1B0,1F1,1B1\n")
    (tmp_path / "twice.csv").write_text("0F0,0B0,0F0\n1F0,1B0\n")
    (tmp_path / "early.csv").write_text("0B0,0F0\n1F0,1B0\n")
    (tmp_path / "far.csv").write_text("0F0,0B0\n1F0,2F0\n")
    (tmp_path / "many.csv").write_text("0F0,0B0,0F99999\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path
