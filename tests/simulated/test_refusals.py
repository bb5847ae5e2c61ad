"""What cannot be simulated is refused by its name, in one line that says what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import harness
from harness.cli import main
from harness.worlds import World, WorldError
from tests.programs import correct, refused
from tests.worlds.call import Function
from tests.worlds.running import assert_clean, assert_gone, line_of, run

OTHER_RANKS = """
import os
import torch.distributed as dist
dist.init_process_group("gloo", rank={rank}, world_size={size})
"""

OWN_PACKAGE = """
def program(rank, world_size):
    import pipeline
"""

WITH_A_MONITOR = """
import monitor

def program(rank, world_size):
    monitor.watch()
"""

MONITOR = """
import threading

def watch():
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
"""


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (refused.forks, "os.fork"),
        (refused.starts_a_process, "processes by multiprocessing, as at .*refused.py"),
        (refused.spawns_a_process, "processes by multiprocessing"),
        (refused.sets_an_alarm, "signal.alarm"),
        (refused.registers_operators, "torch.library, as at .*refused.py"),
        (refused.defines_an_operator, "torch.library, as at .*refused.py"),
        (refused.sends_from_a_gpu, "cuda tensors"),
        (refused.catches_the_refusal, "os.fork"),
        (refused.runs_the_harness, "a run of the harness inside of a rank"),
        (refused.runs_the_harness_on_real_ranks, "a run of the harness inside of a rank"),
    ],
)
def test_a_program_is_refused_by_what_it_does(sim: World, function: Function, named: str) -> None:
    with pytest.raises(WorldError, match=rf"^backend sim cannot simulate .*{named}") as refusal:
        run(sim, function)
    assert "use --backend gloo" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert_clean(run(sim, correct.everyone_counts))


@pytest.mark.parametrize(
    "function", [refused.starts_a_thread, refused.starts_a_pool, refused.starts_a_timer]
)
def test_a_thread_of_the_program_s_own_is_refused_with_its_line(
    sim: World, function: Function
) -> None:
    with pytest.raises(WorldError, match="threads of the program's own") as refusal:
        run(sim, function)
    assert f"{refused.__file__}:{line_of(function, 'refused')};" in str(refusal.value)


@pytest.mark.parametrize(
    "ranks", [{"rank": "0", "size": "1"}, {"rank": '1 - int(os.environ["RANK"])', "size": "2"}]
)
def test_a_group_of_other_ranks_is_refused(tmp_path: Path, ranks: dict[str, str]) -> None:
    file = tmp_path / "script.py"
    file.write_text(OTHER_RANKS.format(**ranks))
    with pytest.raises(WorldError, match=r"a group of \d in which process \d of 2 is rank \d"):
        harness.run(str(file), 2)


def test_a_package_of_the_program_s_own_with_our_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pipeline.py").touch()
    file = tmp_path / "mine.py"
    file.write_text(OWN_PACKAGE)
    with pytest.raises(WorldError, match="has the name of ours, pipeline"):
        harness.run(f"{file}:program", 2)


def test_a_thread_that_an_installed_package_starts_is_let_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "site"
    packages.mkdir()
    (packages / "monitor.py").write_text(MONITOR)
    monkeypatch.syspath_prepend(str(packages))
    file = tmp_path / "mine.py"
    file.write_text(WITH_A_MONITOR)
    with pytest.raises(WorldError, match=r"threads .* monitor\.py:6|threads .*monitor\.py"):
        harness.run(f"{file}:program", 2, confirm=False)
    sys.modules.pop("monitor", None)
    monkeypatch.setattr(
        "harness.targets.loading._INSTALLED", (f"{packages}/", *_installed_folders())
    )
    assert harness.run(f"{file}:program", 2, confirm=False).findings == []
    sys.modules.pop("monitor", None)


def _installed_folders() -> tuple[str, ...]:
    from harness.targets import loading

    return loading._INSTALLED


def test_what_torch_says_of_a_missing_gpu_is_the_rank_s_own_error(sim: World) -> None:
    outcome = run(sim, refused.uses_a_gpu)
    assert outcome.ending == "failed"


def test_turning_an_alarm_off_is_no_timer(sim: World) -> None:
    assert_clean(run(sim, refused.turns_off_an_alarm))


def test_the_command_ends_with_2_and_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.cli.interrupts.install", lambda: None)
    status = main(["run", f"{refused.__file__}:forks", "-n", "2", "--in-process"])
    out, err = capsys.readouterr()
    assert status == 2
    assert out.strip() == ""
    assert len(err.strip().splitlines()) == 1
    assert "--backend gloo" in err


def test_a_child_is_told_its_rank_and_ends_with_the_run(sim: World) -> None:
    assert [rank.result for rank in run(sim, refused.asks_a_child).ranks] == [0, 1]
    outcome = run(sim, refused.leaves_a_child)
    assert_clean(outcome)
    assert_gone([int(rank.output) for rank in outcome.ranks])
