"""The whole loop by the command, on real gloo ranks."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import harness

pytestmark = pytest.mark.gloo

SCRIPT = """
import os
import sys

import torch
import torch.distributed as dist

assert __name__ == "__main__"
assert os.environ["LOCAL_RANK"] == os.environ["RANK"]
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print("args", sys.argv[1:], "total", int(total))
dist.destroy_process_group()
sys.exit(0)
"""

PROGRAMS = """
import time

import torch
import torch.distributed as dist


def exchange(rank, world_size):
    tensor = torch.ones(2)
    dist.send(tensor, 1 - rank)
    dist.recv(tensor, 1 - rank)


def endless(rank, world_size):
    print("up", flush=True)
    time.sleep(600)
"""


def command(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness", *args],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "programs.py").write_text(PROGRAMS)
    return tmp_path


def test_an_unmodified_script_runs_with_its_arguments_and_is_heard(folder: Path) -> None:
    done = command(folder, "run", "script.py", "-n", "2", "--", "--lr", "0.1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stderr.splitlines()) == [
        f"rank {rank} | args ['--lr', '0.1'] total 2" for rank in range(2)
    ]
    assert "script.py: no finding in this run on sim" in done.stdout


def test_a_deadlock_is_found_told_and_replayed(folder: Path) -> None:
    done = command(folder, "run", "programs.py:exchange", "-n", "2", "--format", "json")
    assert done.returncode == 1, done.stderr
    (finding,) = json.loads(done.stdout)["findings"]
    assert finding["code"] == "deadlock"
    assert {operation["line"] for operation in finding["operations"]} == {10}
    again = command(folder, "replay", finding["case"])
    assert again.returncode == 1
    assert "rank 0  send to 1   programs.py:10 in exchange" in again.stdout


def test_an_interrupted_run_ends_with_status_2_and_one_line(folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", "run", "programs.py:endless", "-n", "2"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    while "| up" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 2
    assert rest.splitlines()[-1] == "error: interrupted after 0 cases of programs.py:endless"
    assert "Traceback" not in rest


def test_the_python_functions_share_one_warm_world() -> None:
    def all_reduce(rank: int, world_size: int) -> None:
        import torch
        import torch.distributed as dist

        total = torch.tensor(rank)
        dist.all_reduce(total)
        assert total == sum(range(world_size)) + world_size - 2

    harness.run(all_reduce, 2).raise_if_findings()
    report = harness.run(all_reduce, 3)
    assert [finding.code for finding in report.findings] == ["rank-error"]
    assert report.findings[0].operations[0].function.endswith("all_reduce")
    harness.check("1f1b", world_size=2, chunks=2, cases=2).raise_if_findings()


def test_what_buffering_would_let_through_is_confirmed_on_real_ranks(tmp_path: Path) -> None:
    (tmp_path / "programs.py").write_text(PROGRAMS)
    done = command(tmp_path, "run", "programs.py:exchange", "-n", "2", "-q", "--format", "json")
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["code"], finding["cause"]) == ("deadlock", "needs-buffering")
    assert finding["confirmed_on"] == ["sim", "gloo"]
