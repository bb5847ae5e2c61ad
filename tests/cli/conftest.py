"""The command without real ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import session
from harness.cli import main
from tests.cli.fake_world import FakeCampaign, FakeWorld


@dataclass
class Ended:
    """How the command ended."""

    status: int
    stdout: str
    stderr: str


Harness = Callable[..., Ended]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> FakeWorld:
    fake = FakeWorld()
    monkeypatch.setattr(session, "_worlds", {})  # other tests keep their warm ones
    monkeypatch.setattr("harness.worlds.open_world", lambda backend, **how: fake)
    return fake


@pytest.fixture
def campaign(monkeypatch: pytest.MonkeyPatch) -> FakeCampaign:
    fake = FakeCampaign()
    monkeypatch.setattr("harness.fuzz.campaign", fake)
    monkeypatch.setattr("harness.execute.run_case", fake.run_case)
    return fake


@pytest.fixture
def harness(
    world: FakeWorld,
    campaign: FakeCampaign,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Harness:
    """Run the command in this process, without taking over its signals."""
    monkeypatch.setattr("harness.cli.interrupts.install", lambda: None)

    def run(*args: str | Path) -> Ended:
        status = main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return Ended(status, out, err)

    return run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a few files of a user's."""
    (tmp_path / "mine.py").write_text(
        "def step(stage, comms, batch, chunks):\n    return None\n\n"
        "def plan(rank, world_size, chunks):\n    yield f'{rank}F0'\n\n"
        "def program(rank, world_size):\n    print('hi')\n\n"
        "def short(stage, comms):\n    pass\n\n"
        "def many(stages, comms, batch, chunks):\n    pass\n\n"
        "def placed(stages, comms, batch, chunks):\n    pass\n\nplaced.placement = 'w'\n"
    )
    (tmp_path / "words.csv").write_text("several words\n")
    (tmp_path / "here.csv").write_text("0F0,0B0\n")
    (tmp_path / "broken.py").write_text("def step(stage, comms, batch, chunks:\n")
    (tmp_path / "missing.py").write_text(
        "import no_such_module\n\ndef step(stage, comms, batch, chunks):\n    pass\n"
    )
    (tmp_path / "script.py").write_text("raise SystemExit(0)\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path
