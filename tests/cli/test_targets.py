"""A target is told from the file's text where that can be, and loaded on ranks only."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.targets import Describe, Description, Target, TargetError, from_callable, parse_target
from harness.targets.loading import import_file

STEP = "def step(stage, comms, batch, chunks):\n    return {}\n"


def here(target: Target) -> Description:
    """Describe a target in this process, as a rank would."""
    return Describe(target)(None)


def never(target: Target) -> Description:
    raise AssertionError(f"{target.text} can be told from its text")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    path, modules = list(sys.path), set(sys.modules)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("source", "name", "kind"),
    [
        ("def f(stage, comms, batch, chunks): ...", "f", "step"),
        ("def f(comms, stage, chunks, batch, debug=False): ...", "f", "step"),
        ("def f(rank, world_size, chunks): ...", "f", "plan"),
        ("def f(stage): ...\ndef f(rank, world_size, chunks): ...", "f", "plan"),
    ],
)
def test_a_plain_functions_kind_is_read_without_running_it(
    folder: Path, source: str, name: str, kind: str
) -> None:
    (folder / "mine.py").write_text(f"raise SystemExit('ran')\n{source}\n")
    target = parse_target(f"mine.py:{name}", for_command="check", describe=never)
    assert (target.kind, target.path) == (kind, str(folder / "mine.py"))


@pytest.mark.parametrize(
    "source",
    [
        "import functools\n@functools.cache\ndef f(stage, comms, batch, chunks): ...",
        "from functools import partial\ndef g(stage, comms, batch, chunks, x): ...\n"
        "f = partial(g, x=1)",
        "if True:\n    def f(stage, comms, batch, chunks): ...\nelse:\n    def f(): ...",
        "class F:\n    def __call__(self, stage, comms, batch, chunks): ...\nf = F()",
        "f = lambda stage, comms, batch, chunks: None",
    ],
)
def test_what_the_text_cannot_tell_is_asked_of_a_rank(folder: Path, source: str) -> None:
    (folder / "mine.py").write_text(source + "\n")
    assert parse_target("mine.py:f", for_command="check", describe=here).kind == "step"


@pytest.mark.parametrize("parameters", ["rank, world_size", "rank, size, lr=0.1", "*args"])
def test_any_function_of_two_values_can_be_run(folder: Path, parameters: str) -> None:
    (folder / "mine.py").write_text(f"def f({parameters}): ...\n")
    assert parse_target("mine.py:f", for_command="run", describe=never).kind == "program"


@pytest.mark.parametrize("parameters", ["", "rank", "a, b, c", "rank, world_size, *, lr"])
def test_a_function_of_other_values_cannot_be_run(folder: Path, parameters: str) -> None:
    (folder / "mine.py").write_text(f"def f({parameters}): ...\n")
    with pytest.raises(TargetError, match=r"called as function\(rank, world_size\)"):
        parse_target("mine.py:f", for_command="run", describe=never)


def test_parameters_in_another_order_are_given_by_name(folder: Path) -> None:
    (folder / "mine.py").write_text(
        "def f(chunks, batch, comms, stage): return chunks, batch, comms, stage\n"
    )
    step = parse_target("mine.py:f", for_command="check", describe=never).load()
    assert step("stage", "comms", "batch", 4) == (4, "batch", "comms", "stage")


def test_a_module_imports_its_neighbours_and_is_loaded_again_when_one_changes(
    folder: Path,
) -> None:
    (folder / "mine.py").write_text("from helper import VALUE\n" + STEP.format("VALUE"))
    helper = folder / "helper.py"
    helper.write_text("VALUE = 1\n")
    target = parse_target("mine.py:step", for_command="check", describe=never)
    first = import_file(str(folder / "mine.py"))
    assert import_file(str(folder / "mine.py")) is first
    assert target.load()(None, None, None, 1) == 1
    helper.write_text("VALUE = 22\n")
    os.utime(helper, ns=(1, 1))  # whatever the clock says, it has changed
    assert target.load()(None, None, None, 1) == 22


def test_two_folders_may_each_have_a_module_of_one_name(folder: Path) -> None:
    for number in (1, 2):
        (folder / str(number)).mkdir()
        (folder / str(number) / "mine.py").write_text(
            "import helper\n" + STEP.format("helper.VALUE")
        )
        (folder / str(number) / "helper.py").write_text(f"VALUE = {number}\n")
    for number in (1, 2, 1):
        target = parse_target(f"{number}/mine.py:step", for_command="check", describe=never)
        assert target.load()(None, None, None, 1) == number


def test_a_file_in_a_package_may_import_relatively(folder: Path) -> None:
    package = folder / "package_of_mine"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "helper.py").write_text("VALUE = 5\n")
    (package / "mine.py").write_text("from .helper import VALUE\n" + STEP.format("VALUE"))
    target = parse_target("package_of_mine/mine.py:step", for_command="check", describe=never)
    assert target.load()(None, None, None, 1) == 5


def test_a_file_named_like_a_module_of_python_does_not_replace_it(folder: Path) -> None:
    (folder / "json.py").write_text(STEP.format(3))
    target = parse_target("json.py:step", for_command="check", describe=never)
    assert target.load()(None, None, None, 1) == 3
    import json

    assert json.loads("1") == 1


def test_a_function_local_to_a_test_travels_by_value(folder: Path) -> None:
    kept = [7]

    def step(stage: Any, comms: Any, batch: Any, chunks: int) -> int:
        return kept[0] * chunks

    target = pickle.loads(pickle.dumps(from_callable(step, "check")))
    assert target.text.endswith("step")
    assert target.load()(None, None, None, 2) == 14


def test_what_cannot_be_pickled_is_told() -> None:
    lock = threading.Lock()

    def step(stage: Any, comms: Any, batch: Any, chunks: int) -> Any:
        return lock

    with pytest.raises(TargetError, match=r"cannot be sent to the ranks \(TypeError: cannot pic"):
        from_callable(step, "check")


def test_a_build_stage_beside_the_step_is_found(folder: Path) -> None:
    (folder / "mine.py").write_text(
        STEP.format(1) + "def build_stage(index, count, layers, width): return index\n"
    )
    target = parse_target("mine.py:step", for_command="check", describe=never)
    build: Callable[..., Any] | None = target.load_build_stage()
    assert build is not None
    assert build(3, 4, 8, 16) == 3
    (folder / "other.py").write_text(STEP.format(1))
    other = parse_target("other.py:step", for_command="check", describe=never)
    assert other.load_build_stage() is None


def test_a_schedules_target_is_its_generator() -> None:
    actions = parse_target("gpipe", for_command="check", describe=never).load()(0, 2, 2)
    assert [str(action) for action in actions] == ["0F0", "0F1", "0B0", "0B1"]
