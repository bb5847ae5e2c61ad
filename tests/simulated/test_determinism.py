"""One case is one run: the same trace wherever, whenever and how often it is run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import harness
from harness.worlds import Simulated, World
from harness.worlds.simulated.recorded import trace_hash
from tests.programs import correct, simulated
from tests.worlds.call import Function
from tests.worlds.running import run

PROGRAM = """
import random
import torch, torch.distributed as dist

def program(rank, world_size):
    a, b = torch.rand(3), torch.empty(3)
    group = dist.new_group([0, world_size - 1])
    for step in range(random.randint(2, 5)):
        works = [dist.isend(a, (rank + 1) % world_size, tag=step),
                 dist.irecv(b, (rank - 1) % world_size, tag=step)]
        for work in works:
            while not work.is_completed() and step % 2:
                break
            work.wait()
        dist.all_reduce(a)
    if rank == 0:
        for _ in range(world_size - 1):
            dist.recv(b)
    else:
        dist.send(a, 0)
"""

SCRIPT = (
    PROGRAM
    + """
import os
dist.init_process_group("gloo")
program(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
dist.destroy_process_group()
"""
)


@pytest.mark.parametrize(
    "function", [correct.everything, correct.from_anyone, simulated.answers_whoever_comes_first]
)
@pytest.mark.parametrize("interleaving", ["", "random:3", "choices:1.0.1"])
def test_a_run_has_the_same_trace_when_it_is_run_again(
    sim: World, function: Function, interleaving: str
) -> None:
    how = Simulated(interleaving=interleaving)
    traces = {trace_hash(run(sim, function, 3, simulated=how, fresh=True)) for _ in range(3)}
    assert len(traces) == 1


def test_other_interleavings_have_other_traces(sim: World) -> None:
    traces = {
        trace_hash(run(sim, correct.from_anyone, 4, simulated=Simulated(interleaving=name)))
        for name in ("", "random:1", "random:2", "choices:1.1")
    }
    assert len(traces) > 2


def trace_of(*words: str | Path, hash_seed: str = "0") -> str:
    """The trace that the command prints."""
    ended = subprocess.run(
        [sys.executable, "-m", "harness", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONHASHSEED": hash_seed, "COLUMNS": "200"},
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (trace,) = re.findall(r"trace:?\s+([0-9a-f]{8,})", ended.stdout)
    return str(trace)


@pytest.mark.gloo
@pytest.mark.slow
def test_the_trace_is_the_same_in_any_process_isolated_or_not(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(PROGRAM)
    target = f"{file}:program"
    here = harness.run(target, 3, seed=4, confirm=False).tried["trace"]
    assert harness.run(target, 3, seed=4, confirm=False).tried["trace"] == here
    words = ("run", target, "-n", "3", "--seed", "4", "--no-confirm")
    other = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    assert here.startswith(trace_of(*words, "--isolated", hash_seed=other))


@pytest.mark.gloo
def test_a_script_run_twice_has_the_same_trace(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    traces = {harness.run(str(file), 3, seed=4).tried["trace"] for _ in range(2)}
    assert len(traces) == 1
    assert traces == {harness.run(str(file), 3, seed=4, isolated=True).tried["trace"]}


def test_a_case_with_an_interleaving_replays_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(PROGRAM)
    traces = set()
    for name in ("random:3", "random:4", "choices:1.1.0"):
        case = f"{file}:program world=3 interleaving={name} backend=sim seed=0"
        first, again = (harness.replay(case).tried["trace"] for _ in range(2))
        assert first == again
        traces.add(first)
    assert len(traces) == 3
