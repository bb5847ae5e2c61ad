"""What a replayed schedule takes in virtual time: FACTS of the field, at a cost of one each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import harness
from harness import options
from harness.api import Drawing
from harness.cli import main
from harness.timeline import Timeline

LINE = (
    "{schedule} world={world} chunks={chunks} batch={chunks} layers={world} width=4 "
    "dtype=float64 steps=1 backend=sim semantics=gloo seed=0"
)


@pytest.mark.parametrize(
    ("world", "chunks", "makespan", "idle", "bubble", "peaks"),
    [
        (2, 4, 10, 2, 0.2, (2, 1)),
        (4, 1, 8, 6, 0.75, (1, 1, 1, 1)),
        (4, 2, 10, 6, 0.6, (2, 2, 2, 1)),
        (4, 4, 14, 6, 6 / 14, (4, 3, 2, 1)),
        (4, 8, 22, 6, 6 / 22, (4, 3, 2, 1)),
        (8, 16, 46, 14, 14 / 46, (8, 7, 6, 5, 4, 3, 2, 1)),
    ],
)
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_a_simulated_run_has_the_figures_of_its_schedule(
    schedule: str,
    world: int,
    chunks: int,
    makespan: float,
    idle: float,
    bubble: float,
    peaks: tuple[int, ...],
) -> None:
    drawn: list[Timeline] = []
    line = LINE.format(schedule=schedule, world=world, chunks=chunks)
    report = harness.replay(line, drawing=Drawing(options.costs_of("F=1,B=1"), drawn.append))
    time = report.tried["virtual_time"]
    assert report.ok
    assert time["makespan"] == makespan == drawn[0].makespan
    assert [rank["idle"] for rank in time["ranks"]] == [idle] * world
    assert time["bubble"]["of_total"] == pytest.approx(bubble)
    expected = list(peaks) if schedule == "1f1b" else [chunks] * world
    assert [rank["peak_in_flight"] for rank in time["ranks"]] == expected


def test_the_command_writes_the_timeline_and_says_the_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.cli.interrupts.install", lambda: None)
    file = tmp_path / "timeline.json"
    line = LINE.format(schedule="1f1b", world=2, chunks=4)
    assert main(["replay", line, "--cost", "F=1,B=1", "--timeline", str(file)]) == 0
    assert "virtual time: makespan 10, idle 2, 2 (bubble 20.0%" in capsys.readouterr().out
    events = json.loads(file.read_text())["traceEvents"]
    assert {event["name"] for event in events} >= {"0F0", "1B3"}
