"""When `make setup` keeps `.venv`, refreshes it, or makes it anew (no package is installed)."""

from __future__ import annotations

import fcntl
import importlib.util
import sys
import venv
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = sys.version_info[:2]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("environment", ROOT / "ci/environment.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


environment = load()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project with a finished environment that holds no packages."""
    (tmp_path / "ci").mkdir()
    for source in environment.SOURCES:
        (tmp_path / source).write_bytes((ROOT / source).read_bytes())
    venv.create(tmp_path / ".venv", with_pip=False, symlinks=True)
    environment.record(tmp_path, environment.fingerprint(tmp_path))
    return tmp_path


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a set-up did, of the two steps that take long."""
    done: list[str] = []

    def create(command: list[str], **_: object) -> None:
        done.append("create")
        venv.create(command[-1], with_pip=False, symlinks=True)

    original = environment.subprocess.run
    monkeypatch.setattr(environment, "install", lambda root: done.append("install"))
    monkeypatch.setattr(
        environment.subprocess,
        "run",
        lambda command, **options: (create if "venv" in command else original)(command, **options),
    )
    return done


def test_a_fresh_environment_is_left_alone(tree: Path, steps: list[str]) -> None:
    environment.set_up(tree, None)
    assert steps == []


@pytest.mark.parametrize("source", ["pyproject.toml", "ci/constraints.txt"])
def test_a_change_of_the_sources_refreshes_it_in_place(
    tree: Path, steps: list[str], source: str
) -> None:
    with (tree / source).open("a") as file:
        file.write("# changed\n")
    environment.set_up(tree, None)
    assert steps == ["install"]
    environment.set_up(tree, None)
    assert steps == ["install"]


def test_a_package_that_something_else_changed_refreshes_it(tree: Path, steps: list[str]) -> None:
    (site_packages,) = tree.glob(".venv/lib/python3*/site-packages")
    (site_packages / "torch-2.99.0.dist-info").mkdir()
    environment.set_up(tree, None)
    assert steps == ["install"]


def test_one_made_by_hand_is_completed_and_not_thrown_away(tree: Path, steps: list[str]) -> None:
    (tree / ".venv/.setup").unlink()
    environment.set_up(tree, None)
    assert steps == ["install"]


def test_a_missing_one_is_created(tmp_path: Path, tree: Path, steps: list[str]) -> None:
    (tree / ".venv").rename(tmp_path / "elsewhere")
    environment.set_up(tree, None)
    assert steps == ["create", "install"]


def test_one_whose_set_up_was_cut_short_is_made_anew(tree: Path, steps: list[str]) -> None:
    environment.record(tree, environment.INCOMPLETE)
    environment.set_up(tree, None)
    assert steps == ["create", "install"]


def test_one_whose_python_is_gone_is_made_anew(tree: Path, steps: list[str]) -> None:
    (tree / ".venv/bin/python").unlink()
    environment.set_up(tree, None)
    assert steps == ["create", "install"]


def test_one_that_came_with_a_moved_tree_is_made_anew(tree: Path, steps: list[str]) -> None:
    moved = tree.rename(tree.with_name("moved"))
    environment.set_up(moved, None)
    assert steps == ["create", "install"]


def test_another_version_is_made_anew_only_when_one_was_asked_for(tree: Path) -> None:
    assert environment.reason_to_rebuild(tree, None) == ""
    assert environment.reason_to_rebuild(tree, HERE) == ""
    assert environment.reason_to_rebuild(tree, (3, 99)) == f"it has Python {HERE[0]}.{HERE[1]}"


def test_a_failed_install_leaves_it_stale_and_says_so(
    tree: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(root: Path) -> None:
        raise environment.subprocess.CalledProcessError(1, ["pip", "install"])

    (tree / ".venv/.setup").unlink()
    monkeypatch.setattr(environment, "install", fail)
    with pytest.raises(environment.subprocess.CalledProcessError):
        environment.set_up(tree, None)
    assert environment.recorded(tree) != environment.fingerprint(tree)
    assert environment.reason_to_rebuild(tree, None) == ""


def test_an_interrupted_install_is_remembered(
    tree: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(root: Path) -> None:
        raise KeyboardInterrupt

    (tree / ".venv/.setup").unlink()
    monkeypatch.setattr(environment, "install", interrupt)
    with pytest.raises(KeyboardInterrupt):
        environment.set_up(tree, None)
    assert environment.recorded(tree) == environment.INCOMPLETE


def is_locked(tree: Path) -> bool:
    with (tree / "ci/environment.py").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_a_set_up_keeps_others_of_the_tree_waiting_until_it_is_done(tree: Path) -> None:
    with environment.alone(tree):
        assert is_locked(tree)
    assert not is_locked(tree)
