"""The command answers at once when there is nothing to run, and leaves quietly."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROBE = """
import sys
from harness.cli import main
status = main(sys.argv[1:])
heavy = [name for name in ("torch", "hypothesis", "rich", "numpy") if name in sys.modules]
assert not heavy, heavy
sys.exit(status)
"""


def command(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness", *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("args", "status"),
    [
        (["--version"], 0),
        (["--help"], 0),
        (["check", "--help"], 0),
        (["explain"], 0),
        (["explain", "deadlock"], 0),
        (["explain", "deadlok"], 2),
        (["check", "1f1b", "-n", "0"], 2),
        (["check", "1f1c"], 2),
        (["check", "nothing.py:step"], 2),
        (["run", "nothing.py", "-n", "2"], 2),
        (["replay", "1f1b"], 2),
    ],
)
def test_what_runs_nothing_does_not_import_torch(args: list[str], status: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *args], capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr


def test_the_version_is_one_line() -> None:
    done = command("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("harness ")
    assert done.stdout.count("\n") == 1


def test_a_reader_that_leaves_early_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m harness explain | true",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_standard_output_is_told_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "harness", "explain"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == (
        "error: the report cannot be written to standard output: No space left on device\n"
    )


INTERRUPTED = """
import os, signal, sys
from harness.cli import interrupts
interrupts.install()
try:
    os.kill(os.getpid(), int(sys.argv[1]))
    print("went on")
except KeyboardInterrupt:
    os.kill(os.getpid(), int(sys.argv[1]))  # told twice, by a shell and by make
    interrupts.finishing()
    print("stopped once")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_way_of_stopping_is_one_interrupt(number: signal.Signals) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(int(number))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("stopped once\n", "", 0)


@pytest.mark.parametrize(
    "words",
    [["explain"], ["faults", "list"], ["faults", "show", "both-send-first", "--code-only"]],
)
def test_a_closed_standard_output_is_told_in_one_line(words: list[str]) -> None:
    line = f'exec "{sys.executable}" -m harness {" ".join(words)} >&-'
    done = subprocess.run(["/bin/sh", "-c", line], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: the report cannot be written to standard output: it is closed"
    ]
