"""A run that is interrupted, or that another thread or a fork comes between, leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

import harness
from harness.worlds import Outcome, World
from harness.worlds.simulated.interruptions import Interruptions
from harness.worlds.simulated.scheduler import Scheduler
from harness.worlds.simulated.state import Surroundings
from harness.worlds.simulated.torch_private import Installed
from tests.programs import correct, endings, simulated
from tests.worlds.running import assert_clean, run


class DeadlineError(Exception):
    """What a test's deadline raises, from the handler of its signal."""


@pytest.fixture
def deadline() -> Iterator[None]:
    def expire(number: int, frame: FrameType | None) -> None:
        raise DeadlineError

    before = signal.signal(signal.SIGUSR1, expire)
    yield
    signal.signal(signal.SIGUSR1, before)


def hit_in(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, number: int) -> None:
    """Send this process a signal in the middle of a method."""
    original = getattr(owner, name)

    def method(*args: object, **kwargs: object) -> object:
        monkeypatch.undo()
        signal.raise_signal(number)
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, method)


PLACES = [
    (Surroundings, "__init__"), (Surroundings, "restore"), (Installed, "__init__"),
    (Installed, "remove"), (Scheduler, "start"), (Scheduler, "wait"), (Scheduler, "end_all"),
    (Scheduler, "join"),
]  # fmt: skip


@pytest.mark.parametrize(("owner", "name"), PLACES)
def test_an_interrupt_anywhere_ends_the_run_and_leaves_nothing(
    sim: World, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    hit_in(monkeypatch, owner, name, signal.SIGINT)
    try:
        ending = run(sim, simulated.spins, timeout=0.3).ending
    except KeyboardInterrupt:
        ending = "interrupted"
    assert ending == "interrupted"
    assert_clean(run(sim, correct.everyone_counts))


@pytest.mark.parametrize(("owner", "name"), PLACES)
@pytest.mark.usefixtures("deadline")
def test_a_deadline_of_a_test_passes_through(
    sim: World, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    hit_in(monkeypatch, owner, name, signal.SIGUSR1)
    with pytest.raises(DeadlineError):
        run(sim, simulated.swallows_everything_and_spins, timeout=0.3)
    assert_clean(run(sim, correct.everyone_counts))


def test_handlers_are_called_when_nothing_is_halfway() -> None:
    taken: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: taken.append(number))
    try:
        interruptions = Interruptions()
        signal.raise_signal(signal.SIGUSR1)
        assert taken == []
        with interruptions.allowed():
            assert len(taken) == 1
            signal.raise_signal(signal.SIGUSR1)
            assert len(taken) == 2
        signal.raise_signal(signal.SIGUSR1)
        assert len(taken) == 2
        interruptions.end()
        assert len(taken) == 3
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_runs_of_several_threads_take_turns(sim: World) -> None:
    outcomes: list[Outcome] = []

    def go() -> None:
        outcomes.extend(run(sim, correct.everything, 3) for _ in range(3))

    threads = [threading.Thread(target=go) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 9
    for outcome in outcomes:
        assert_clean(outcome)


def test_a_fork_after_a_run_is_a_process_as_any_other(sim: World) -> None:
    assert_clean(run(sim, correct.everyone_counts))
    child = os.fork()
    if child == 0:
        ending = "failed"
        try:
            ending = run(sim, correct.everyone_counts).ending
        finally:
            os._exit(0 if ending == "finished" else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.gloo
@pytest.mark.slow
def test_ctrl_c_ends_the_command() -> None:
    target = f"{endings.__file__}:steps_for_ever"
    words = [sys.executable, "-m", "harness", "run", target, "-n", "2"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as command:
        assert command.stdout is not None
        while b"step" not in command.stdout.readline():
            assert command.poll() is None
        command.send_signal(signal.SIGINT)
        out, _ = command.communicate(timeout=60)
    assert command.returncode in (2, 130), out[-500:]
    assert b"interrupted" in out[-500:]
    assert b"Traceback" not in out


@pytest.mark.slow
def test_it_works_in_a_worker_of_xdist(tmp_path: Path) -> None:
    file = tmp_path / "test_mine.py"
    file.write_text(
        "import pytest, torch, torch.distributed as dist\n"
        "@pytest.mark.world(size=[2, 3], backend='sim')\n"
        "def test_sum(rank, world_size):\n"
        "    total = torch.ones(1)\n"
        "    dist.all_reduce(total)\n"
        "    assert int(total) == world_size\n"
    )
    words = [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider", str(file)]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "2 passed" in ended.stdout


def test_a_run_from_another_thread_than_the_main_one(sim: World) -> None:
    found: list[harness.Report] = []

    def go() -> None:
        found.append(harness.run(f"{correct.__file__}:everyone_counts", 2, confirm=False))

    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
    assert [report.findings for report in found] == [[]]
