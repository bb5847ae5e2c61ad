"""``harness.check``, ``run`` and ``replay`` from Python, on ranks that are calls."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import harness
from harness import session
from harness.case import UsageError
from harness.targets import TargetError
from harness.worlds import RankContext
from tests.cli.fake_world import DEADLOCK, FakeCampaign, FakeWorld


def step(stage: Any, comms: Any, batch: Any, chunks: int) -> None:
    """A step of the user's."""


def plan(rank: int, world_size: int, chunks: int) -> Iterator[str]:
    yield f"{rank}F0"


def test_a_function_is_checked_as_its_file_and_name(
    world: FakeWorld, campaign: FakeCampaign
) -> None:
    report = harness.check(step, world_size=(2, 3), chunks=range(1, 4), cases=5, seed=2)
    assert report.ok
    assert report.target.endswith("test_api.py:step")
    (limits,), (target,) = campaign.limits, campaign.targets
    assert (limits.worlds, limits.chunks, limits.cases) == ((2, 3), (1, 2, 3), 5)
    assert target.kind == "step"
    assert harness.check(plan, world_size="2..4").ok
    assert campaign.targets[-1].kind == "plan"


@pytest.mark.usefixtures("world")
def test_a_report_with_findings_raises_with_its_text(campaign: FakeCampaign) -> None:
    campaign.findings = [DEADLOCK]
    report = harness.check("1f1b")
    with pytest.raises(AssertionError, match=r"error\[deadlock\]: ranks 0 and 1"):
        report.raise_if_findings()


@pytest.mark.usefixtures("world")
def test_a_build_stage_travels_with_a_step_only(campaign: FakeCampaign) -> None:
    def build_stage(index: int, count: int, layers: int, width: int) -> int:
        return index + width

    harness.check(step, build_stage=build_stage)
    build = campaign.targets[0].load_build_stage()
    assert build is not None
    assert build(1, 2, 3, 4) == 5
    with pytest.raises(UsageError, match="goes with a step"):
        harness.check("1f1b", build_stage=build_stage)


@pytest.mark.usefixtures("world")
def test_a_program_given_as_a_function_is_run_with_rank_and_world_size() -> None:
    def program(rank: int, world_size: int) -> None:
        if rank == world_size - 1:
            raise RuntimeError("the last one")

    report = harness.run(program, 3)
    assert [finding.code for finding in report.findings] == ["rank-error"]
    assert report.command == "run"
    assert report.cases.failing == 1


@pytest.mark.usefixtures("world", "campaign")
@pytest.mark.parametrize(
    "arguments",
    [
        {"world_size": 0},
        {"world_size": []},
        {"world_size": 2.5},
        {"chunks": "2..x"},
        {"chunks": True},
        {"cases": 0},
        {"cases": "some"},
        {"seconds": -1},
        {"timeout": float("nan")},
        {"seed": 1.5},
        {"backend": "simulator"},
        {"semantics": "nccl"},
        {"semantics": "nccl-lazy", "backend": "gloo"},
        {"capacity": 0},
        {"policy": "fast"},
    ],
)
def test_what_cannot_be_asked_is_a_value_error(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w") as refused:
        harness.check("1f1b", **arguments)
    assert isinstance(refused.value, UsageError)
    assert "\n" not in str(refused.value)


def test_a_run_takes_one_world_size_and_a_list_of_arguments() -> None:
    with pytest.raises(UsageError, match="give one number"):
        harness.run(lambda rank, size: None, "2..3")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a list of words"):
        harness.run(lambda rank, size: None, 2, args="--lr 1")


@pytest.mark.usefixtures("world")
def test_a_case_of_a_local_function_is_replayed_with_that_function(
    campaign: FakeCampaign,
) -> None:
    line = "'test_api.py:test.<locals>.step' world=2 chunks=2"
    with pytest.raises(TargetError):
        harness.replay(line)
    report = harness.replay(line, target=step)
    assert report.command == "replay"
    assert campaign.targets[-1].kind == "step"


def test_a_world_is_opened_once_and_again_after_it_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[str] = []

    def open_world(backend: str, *, isolated: bool, beside: object) -> FakeWorld:
        assert (beside is not None) is isolated
        opened.append(backend)
        return FakeWorld()

    monkeypatch.setattr(session, "_worlds", {})
    monkeypatch.setattr("harness.worlds.open_world", open_world)
    threads = [threading.Thread(target=session.shared_world, args=("gloo",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert opened == ["gloo"]
    session.close_worlds()
    session.shared_world("gloo")
    assert opened == ["gloo", "gloo"]
    session.shared_world("sim", isolated=True)  # beside the one of gloo's
    session.shared_world("sim")
    assert opened == ["gloo", "gloo", "sim", "sim"]
    session.close_worlds()


def test_an_interrupted_run_is_no_clean_one(world: FakeWorld) -> None:
    world.interrupt = True
    report = harness.run(lambda rank, size: None, 2)
    assert report.interrupted
    assert (report.outcome, report.exit_code) == ("error", 2)


def test_a_program_that_does_not_load_is_no_finding(world: FakeWorld, tmp_path: Any) -> None:
    (tmp_path / "mine.py").write_text("1 / 0\ndef f(rank, world_size): ...\n")
    with pytest.raises(TargetError, match="ZeroDivisionError") as refused:
        harness.run(f"{tmp_path}/mine.py:f", 2)
    assert "line 1, in <module>" in refused.value.traceback
    assert world.programs[0].entry(RankContext(0, 1, "cpu", "gloo")).error is not None
