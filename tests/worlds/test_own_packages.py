"""A program may have a ``pipeline`` or ``harness`` of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
from harness.worlds import WorldError

pytestmark = pytest.mark.gloo

PROGRAM = """
import torch, torch.distributed as dist

def program(rank, world_size):
    import harness.deep.more
    from pipeline import name
    t = torch.ones(2)
    dist.all_reduce(t)
    dist.all_reduce(t, group=dist.new_group([0, 1]))
    if rank:
        dist.recv(t, 0)
    else:
        dist.isend(t, 1).wait()
    assert (name, harness.deep.more.name) == ("theirs", "deep")
    {end}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.py").write_text("name = 'theirs'\n")
    deep = tmp_path / "harness" / "deep"
    deep.mkdir(parents=True)
    (deep.parent / "__init__.py").touch()
    (deep / "__init__.py").touch()
    (deep / "more.py").write_text("name = 'deep'\n")
    return tmp_path


def test_a_function_gets_its_own_and_all_is_still_watched(folder: Path) -> None:
    (folder / "right.py").write_text(PROGRAM.format(end=""))
    (folder / "wrong.py").write_text(PROGRAM.format(end="dist.recv(t, 1 - rank)"))
    (folder / "raises.py").write_text(PROGRAM.format(end="raise ValueError(name)"))
    assert harness.run(f"{folder}/right.py:program", 2, backend="gloo").ok
    (finding,) = harness.run(f"{folder}/wrong.py:program", 2, backend="gloo").findings
    assert (finding.code, finding.operations[0].line) == ("deadlock", 15)
    (finding,) = harness.run(f"{folder}/raises.py:program", 2, backend="gloo").findings
    assert (finding.code, "ValueError: theirs" in finding.message) == ("rank-error", True)


def test_a_script_gets_its_own(folder: Path) -> None:
    script = folder / "train.py"
    script.write_text("from pipeline import name\nassert name == 'theirs'\n")
    assert harness.run(str(script), 1, backend="gloo").ok


def test_a_step_gets_its_own_and_the_harness_gives_it_stage_and_comms(folder: Path) -> None:
    right = Path(__file__).parents[1] / "programs" / "course" / "right_1f1b.py"
    step = folder / "step.py"
    step.write_text(f"from pipeline import name\nassert name == 'theirs'\n{right.read_text()}")
    function = next(
        line.split("(")[0].removeprefix("def ")
        for line in right.read_text().splitlines()
        if line.startswith("def ") and "(stage, comms" in line
    )
    report = harness.check(f"{step}:{function}", world_size=2, chunks=2, cases=3, backend="gloo")
    assert report.ok, str(report)
    assert report.cases.run >= 3


def test_where_there_is_none_a_program_gets_ours(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(
        "def program(rank, world_size):\n    from pipeline.schedules import get_schedule\n"
    )
    (tmp_path / "pipeline").mkdir()  # a folder of data, say
    assert harness.run(f"{tmp_path}/plain.py:program", 1, backend="gloo").ok


def test_the_simulated_world_refuses_such_a_program_by_name(folder: Path) -> None:
    (folder / "right.py").write_text(PROGRAM.format(end=""))
    for isolated in (False, True):
        with pytest.raises(WorldError, match=r"package of the program's own .* --backend gloo"):
            harness.run(f"{folder}/right.py:program", 2, isolated=isolated)
