"""What `conftest.py` gives every test, seen from a project that holds nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run_tests(folder: Path, text: str, *options: str, **variables: str) -> str:
    """Run a test file under the root's conftest, without plugins of ours; its whole output."""
    for name in ("conftest.py", "pyproject.toml"):
        (folder / name).write_bytes((ROOT / name).read_bytes())
    (folder / "test_it.py").write_text("import pytest\n" + text, encoding="utf-8")
    inherited = {k: v for k, v in os.environ.items() if k not in {"CI", "HYPOTHESIS_PROFILE"}}
    command = [sys.executable, "-m", "pytest", "-p", "no:harness", "-p", "no:cacheprovider", "-v"]
    done = subprocess.run(
        [*command, *options, "test_it.py"],
        cwd=folder,
        env=inherited | {"PYTHONPATH": str(ROOT)} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


WORLD = "def test_world(backend): assert backend == 'gloo'"
LIMITS = """
def limit(request): return request.node.get_closest_marker("timeout")
def test_plain(request): assert limit(request) is None
@pytest.mark.gloo
def test_gloo(request): assert limit(request).args[0] > 120
@pytest.mark.gloo
@pytest.mark.timeout(7)
def test_own(request): assert limit(request).args[0] == 7
def test_world(request, backend): assert limit(request).args[0] > 120
"""
NCCL = """
@pytest.mark.nccl(gpus=99)
def test_many(): pass
"""
PROFILE = """
import hypothesis
def test_profile(): assert hypothesis.settings().derandomize == {}
"""


def test_a_test_that_takes_a_backend_runs_on_gloo_unless_told_otherwise(tmp_path: Path) -> None:
    assert re.search(r"test_world\[gloo\] PASSED", run_tests(tmp_path, WORLD))


def test_each_chosen_backend_gets_its_own_run(tmp_path: Path) -> None:
    output = run_tests(tmp_path, WORLD, "--backend", "sim", "--backend", "gloo")
    assert "test_world[sim]" in output
    assert re.search(r"test_world\[gloo\] PASSED", output)


def test_an_unknown_backend_is_refused_with_the_choices(tmp_path: Path) -> None:
    output = run_tests(tmp_path, WORLD, "--backend", "mpi")
    assert "invalid choice: 'mpi'" in output


def test_a_marked_test_gets_a_longer_deadline_unless_it_sets_its_own(tmp_path: Path) -> None:
    assert "4 passed" in run_tests(tmp_path, LIMITS)


def test_a_test_past_its_deadline_fails(tmp_path: Path) -> None:
    text = "import time\n@pytest.mark.timeout(0.2)\ndef test_long(): time.sleep(60)"
    assert "Timeout (>0.2s)" in run_tests(tmp_path, text)


def test_a_test_without_enough_gpus_is_skipped_saying_what_it_lacks(tmp_path: Path) -> None:
    output = run_tests(tmp_path, NCCL)
    assert re.search(r"SKIPPED.*needs 99 GPU\(s\) for NCCL; torch sees \d+ here", output)


@pytest.mark.parametrize(
    ("variables", "derandomized"),
    [({}, False), ({"CI": "true"}, True), ({"CI": "true", "HYPOTHESIS_PROFILE": "dev"}, False)],
)
def test_ci_gets_derandomized_examples(
    tmp_path: Path, variables: dict[str, str], derandomized: bool
) -> None:
    output = run_tests(tmp_path, PROFILE.format(derandomized), **variables)
    assert "1 passed" in output, output


def test_an_unknown_hypothesis_profile_is_refused_with_the_choices(tmp_path: Path) -> None:
    output = run_tests(tmp_path, PROFILE.format(True), HYPOTHESIS_PROFILE="fast")
    assert "HYPOTHESIS_PROFILE=fast: use dev or ci" in output


def test_the_tests_run_under_xdist_too(tmp_path: Path) -> None:
    assert "1 passed" in run_tests(tmp_path, WORLD, "-n", "1")
