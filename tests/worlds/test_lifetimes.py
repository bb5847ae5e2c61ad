"""Nothing is left behind: no process, no file, no descriptor, whoever is killed when."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.worlds import Outcome, World, WorldError, open_world
from harness.worlds.server import StoreProcess
from tests.programs import correct, endings, messages
from tests.torch_versions import since
from tests.worlds.call import Function
from tests.worlds.running import (
    alive,
    assert_clean,
    assert_gone,
    open_descriptors,
    processes_of,
    run,
    the_finding,
)

QUIET = since("2.9", "has a gloo that prints a line when it connects")

pytestmark = pytest.mark.gloo
ROOT = Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("HARNESS_TEST_KILLS", "1"))  # moments for each victim


class At:
    """An echo that acts once, when the ranks have printed so many lines; it notes their ids."""

    def __init__(self, lines: int, act: Callable[[At], None]) -> None:
        self.pids: dict[int, int] = {}
        self._left = lines
        self._act = act

    def __call__(self, rank: int, line: str) -> None:
        if line.isdigit():
            self.pids[rank] = int(line)
        self._left -= 1
        if self._left <= 0 and len(self.pids) == 2:
            self._left = 1 << 60
            self._act(self)


def moments(seed: int, *always: int, count: int = KILLS) -> list[int]:
    """After how many printed lines to strike: always at some, and at random ones."""
    choices = random.Random(seed)
    return [*always, *(choices.randint(3, 400) for _ in range(count))]


def test_thirty_cases_and_a_close_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = open_descriptors()
    world = open_world("gloo")
    programs = [
        correct.everyone_counts,
        messages.both_send_first,
        endings.all_raise,
        endings.leaves_without_a_word,
    ]
    for program in programs:
        run(world, program)
    warm = open_descriptors()
    for number in range(30):
        run(world, programs[number % len(programs)], fresh=number % 5 == 4)
    assert open_descriptors() <= warm
    pids = processes_of(world)
    assert len(pids) >= 3  # the server, a store and a rank at least
    assert min(pids) in alive(pids)
    world.close()
    assert_gone(pids)
    assert open_descriptors() == before
    assert list(tmp_path.iterdir()) == []
    world.close()  # once more changes nothing


def test_an_interrupt_ends_the_ranks_and_the_world_can_be_used_again(gloo: World) -> None:
    at = At(10, lambda at: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        run(gloo, endings.steps_for_ever, echo=at)
    assert len(at.pids) == 2
    assert_gone(at.pids.values())
    assert_clean(run(gloo, correct.everyone_counts))


@pytest.mark.parametrize("moment", moments(1, 2, count=4 * KILLS))
def test_a_rank_killed_at_any_moment_is_found_and_the_others_are_gone(
    gloo: World, moment: int
) -> None:
    victim = moment % 2
    at = At(moment, lambda at: os.kill(at.pids[victim], signal.SIGKILL))
    outcome = run(gloo, endings.steps_for_ever, echo=at)
    finding = the_finding(outcome)
    assert (finding.code, finding.ranks) == ("rank-death", (victim,))
    assert finding.details["exit_status"] == -signal.SIGKILL
    assert_gone(at.pids.values())
    assert_clean(run(gloo, correct.everyone_counts))


@pytest.mark.parametrize("moment", moments(2))
def test_a_server_killed_in_a_case_takes_its_ranks_along_and_another_one_starts(
    gloo: World, moment: int
) -> None:
    server: Any = gloo.start()  # type: ignore[attr-defined]
    at = At(moment, lambda at: os.kill(server.process.pid, signal.SIGKILL))
    pids = processes_of(gloo)
    with pytest.raises(WorldError, match="fork server was killed"):
        run(gloo, endings.steps_for_ever, echo=at)
    assert_gone({*pids, *at.pids.values()})
    assert_clean(run(gloo, correct.everyone_counts))


@pytest.mark.parametrize("fresh", [False, True])
def test_a_store_killed_in_a_case_is_not_the_programs_fault(gloo: World, fresh: bool) -> None:
    before = processes_of(gloo)
    run(gloo, correct.everyone_counts)

    def strike(at: At) -> None:
        server: Any = gloo.start()  # type: ignore[attr-defined]
        stores = [c.pid for c in server._children.values() if isinstance(c, StoreProcess)]
        for pid in filter(None, stores):
            os.kill(pid, signal.SIGKILL)

    at = At(10, strike)
    with pytest.raises(WorldError, match="key-value store of the ranks was killed"):
        run(gloo, endings.steps_for_ever, echo=at, fresh=fresh)
    assert_gone(at.pids.values())
    assert gloo._store is None  # type: ignore[attr-defined]  # the shared one was killed as well
    assert_clean(run(gloo, correct.everyone_counts))
    assert min(before) in processes_of(gloo)


def test_a_store_killed_between_cases_is_replaced(gloo: World) -> None:
    run(gloo, correct.everyone_counts)
    store: StoreProcess = gloo._store  # type: ignore[attr-defined]
    assert store.pid is not None
    os.kill(store.pid, signal.SIGKILL)
    while not store.has_ended:  # all of its threads: else it is killed in the next case
        time.sleep(0.01)
    assert_clean(run(gloo, correct.everyone_counts))


def test_threads_that_share_a_world_take_turns(gloo: World) -> None:
    outcomes: dict[str, Outcome] = {}

    def go(name: str, program: Function) -> None:
        outcomes[name] = run(gloo, program)

    programs = {
        "killed": endings.killed,
        "raises": endings.raises,
        "clean": correct.everyone_counts,
    }
    threads = [threading.Thread(target=go, args=item) for item in programs.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert the_finding(outcomes["killed"]).code == "rank-death"
    assert the_finding(outcomes["raises"]).code == "rank-error"
    assert_clean(outcomes["clean"])


def test_a_world_closed_by_another_thread_ends_what_runs_on_it() -> None:
    world = open_world("gloo")
    errors: list[BaseException] = []
    running = threading.Event()

    def go() -> None:
        try:
            run(world, endings.steps_for_ever, echo=lambda *_: running.set())
        except WorldError as error:
            errors.append(error)

    thread = threading.Thread(target=go)
    thread.start()
    assert running.wait(60)
    server: Any = world
    pids = processes_of(server._server.process.pid)
    world.close()
    thread.join(10)
    assert not thread.is_alive()
    assert len(errors) == 1
    assert_gone(pids)


def test_a_server_killed_between_cases_is_replaced(gloo: World) -> None:
    server: Any = gloo.start()  # type: ignore[attr-defined]
    pids = processes_of(gloo)
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    assert_clean(run(gloo, correct.everyone_counts))
    assert_gone(pids)


@QUIET
@pytest.mark.parametrize("moment", moments(3, 0))
def test_a_command_killed_at_any_moment_leaves_nothing(moment: int, tmp_path: Path) -> None:
    """Moment 0 is while the server still imports torch."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.worlds.command"],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as command:
        assert command.stdout is not None
        server = int(command.stdout.readline().split()[1])
        pids = {server}
        for _ in range(moment):
            _, line = command.stdout.readline().split()
            if line.isdigit():
                pids.add(int(line))
        assert moment == 0 or len(pids) >= 2
        command.kill()
        assert_gone(pids)
    assert list(tmp_path.iterdir()) == []
