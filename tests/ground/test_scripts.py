"""The Makefile and the scripts of ci/ do what they say, and CI calls only them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ["ci/setup", "ci/check", "ci/cpu", "ci/gpu", "ci/demo", ".ci/run"]
PROMISED = {"help", "setup", "demo", "test", "test-serial", "lint", "check", "clean"}


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command at the root, cut off from the make that may have started these tests."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def stub(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def listed_targets() -> set[str]:
    return set(re.findall(r"^  make ([a-z-]+) ", run("make").stdout, flags=re.MULTILINE))


def test_make_alone_lists_the_targets() -> None:
    assert listed_targets() >= PROMISED


def test_every_listed_target_exists_and_every_target_is_listed() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, flags=re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == listed_targets()
    for target in listed_targets():
        assert run("make", "--dry-run", target).returncode == 0, target


@pytest.mark.parametrize("target", ["demo", "test", "test-serial", "lint"])
def test_a_target_that_needs_the_environment_sets_it_up_first(target: str) -> None:
    commands = run("make", "--dry-run", target).stdout.splitlines()
    assert commands[0].endswith("ci/setup")


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_is_executable_parses_and_stops_at_errors(script: str) -> None:
    path = ROOT / script
    text = path.read_text(encoding="utf-8")
    shell = "bash" if "bash" in text.splitlines()[0] else "sh"
    assert os.access(path, os.X_OK)
    assert run(shell, "-n", path).stderr == ""
    assert re.search(r"^set -eu", text, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("failing", "status"), [("none", 0), ("lint", 1), ("test", 1), ("lint test", 1)]
)
def test_ci_runs_lint_then_test_and_fails_when_either_does(
    tmp_path: Path, failing: str, status: int
) -> None:
    make = stub(tmp_path / "make", f'echo "ran $1"; case " {failing} " in *" $1 "*) exit 1;; esac')
    done = run("bash", ".ci/run", MAKE=str(make))
    assert done.stdout.splitlines() == ["ran lint", "ran test"]
    assert done.returncode == status


def test_the_workflow_runs_only_scripts_of_ci() -> None:
    workflow = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    commands = re.findall(r"run: (.*)", workflow)
    assert set(commands) == {"ci/cpu", "ci/gpu"}


def test_the_gpu_script_refuses_a_machine_without_gpus(tmp_path: Path) -> None:
    stub(tmp_path / "nvidia-smi", "exit 9")
    done = run("ci/gpu", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ci/gpu: no GPU on this machine")
    assert len(done.stderr.splitlines()) == 1


def test_set_up_says_in_one_line_that_no_python_will_do() -> None:
    done = run("ci/setup", PYTHON="no-such-python")
    assert done.returncode == 2
    assert done.stderr.startswith("error: no usable Python 3.11 or newer (tried: no-such-python)")
    assert len(done.stderr.splitlines()) == 1


RIGHT = "exit 0"
DEADLOCK = "echo 'error[deadlock]: ranks 0 and 1 wait for each other'; exit 1"


HAZARD = "echo 'error[nccl-hazard]: ranks 0 and 1 would hang'; exit 1"


@pytest.mark.parametrize(
    ("good", "faulty", "hazardous", "status"),
    [
        (RIGHT, DEADLOCK, HAZARD, 0),
        ("exit 1", DEADLOCK, HAZARD, 1),
        ("exit 2", DEADLOCK, HAZARD, 1),
        (RIGHT, "exit 0", HAZARD, 1),
        (RIGHT, "echo 'error[timeout]: no progress'; exit 1", HAZARD, 1),
        (RIGHT, DEADLOCK.replace("exit 1", "exit 2"), HAZARD, 1),
        (RIGHT, DEADLOCK, DEADLOCK, 1),
        (RIGHT, DEADLOCK, "exit 0", 1),
    ],
)
def test_the_demonstration_succeeds_only_on_all_right_verdicts(
    tmp_path: Path, good: str, faulty: str, hazardous: str, status: int
) -> None:
    cases = f"1f1b) {good};; *isend*) {hazardous};; *) {faulty};;"
    body = f'echo "report on $2"\ncase "$2" in {cases} esac'
    done = run("ci/demo", HARNESS=str(stub(tmp_path / "harness", body)))
    assert done.returncode == status, done.stdout
    assert "report on 1f1b" in done.stdout
    assert "report on examples/one_f_one_b_blocking.py:step" in done.stdout
    assert ("WRONG" in done.stdout) == bool(status)
