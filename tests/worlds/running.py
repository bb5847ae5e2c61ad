"""Runs programs of ``tests/programs`` on real ranks and says what is found."""

from __future__ import annotations

import contextlib
import inspect
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

import psutil

from harness.case import Case
from harness.findings import Finding
from harness.judge import judge
from harness.worlds import Echo, Outcome, Program, World
from tests.worlds.call import Call, Function


def run(
    world: World,
    function: Function,
    size: int = 2,
    *,
    timeout: float = 60,
    echo: Echo | None = None,
    **options: Any,
) -> Outcome:
    """Run a program; the long timeout is for what ends by being decided, not by time."""
    return world.run(Program(Call(function), **options), size, timeout=timeout, echo=echo)


def findings(outcome: Outcome) -> list[Finding]:
    return judge(outcome, Case("program", len(outcome.ranks)))


def the_finding(outcome: Outcome) -> Finding:
    """The only finding that there is."""
    found = findings(outcome)
    assert len(found) == 1, [f"{f.code}: {f.message}" for f in found]
    return found[0]


def assert_clean(outcome: Outcome) -> None:
    assert outcome.ending == "finished", outcome
    assert [f"{f.code}: {f.message}" for f in findings(outcome)] == []


def line_of(function: Callable[..., Any], comment: str) -> int:
    """The line of a program that bears the comment."""
    lines, first = inspect.getsourcelines(function)
    (at,) = [at for at, line in enumerate(lines) if line.rstrip().endswith(f"# {comment}")]
    return first + at


def processes_of(world: World | int) -> set[int]:
    """The ids of the server of a world, or of the server of that id, and of all that it made."""
    whole: Any = world
    server = whole if isinstance(whole, int) else int(whole.start().process.pid)
    found = {server}
    with contextlib.suppress(psutil.NoSuchProcess):
        found |= {child.pid for child in psutil.Process(server).children(True)}
    return found


def alive(pids: Iterable[int]) -> set[int]:
    """Which of the processes still run; one that has ended and was not yet waited for does not."""
    running = set()
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                running.add(pid)
    return running


def assert_gone(pids: Iterable[int], within: float = 3.0) -> None:
    """All of the processes end by themselves in that many seconds."""
    deadline = time.monotonic() + within
    pids = set(pids)
    while (left := alive(pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == set(), [psutil.Process(pid).cmdline() for pid in left]


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208
