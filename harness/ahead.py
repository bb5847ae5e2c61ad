"""A campaign's simulated cases run ahead of their turn: several at a time, on all cores.

Each is run whole, with its oracle and its judges, in a process of the world's own. What comes of a
case does not depend on where or when it is run, so that the campaign's report is the same; one that
comes to nothing there (it took its process down, or could not be simulated) is left to its turn.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from harness.case import Case
from harness.execute import CaseResult, execute
from harness.targets import Target
from harness.worlds import RankContext, World
from harness.worlds.simulated.isolated import HostedWorld, IsolatedWorld

Item = TypeVar("Item")
Result = TypeVar("Result")

LARGEST = 24  # cases that are run at once: few enough to wait for
PROCESSES = 4  # at most: each of them has torch in memory


@dataclass(frozen=True, slots=True)
class Share(Generic[Item, Result]):
    """What each of several processes runs: every so many-th of the items."""

    function: Callable[[Item], Result | None]
    items: tuple[Item, ...]

    def __call__(self, context: RankContext) -> dict[int, Result]:
        """Return the results by the items' places; without those that came to nothing."""
        found: dict[int, Result] = {}
        threads = threading.active_count()
        for place in range(context.rank, len(self.items), context.world_size):
            result = self.function(self.items[place])
            if result is not None:
                found[place] = result
            if threading.active_count() > threads:
                break  # a rank that could not be ended goes on in this process
        return found


@dataclass(frozen=True, slots=True)
class _Case:
    """Runs one case, with its oracle and its judges; None where whoever has its turn is told."""

    target: Target
    timeout: float

    def __call__(self, case: Case) -> CaseResult | None:
        try:
            return execute(self.target, case, HostedWorld(), self.timeout)
        except Exception:
            return None


class Ahead:
    """Runs cases before they are asked for; ``results`` takes what came of them."""

    def __init__(
        self, target: Target, world: World, timeout: float, results: dict[Case, CaseResult]
    ) -> None:
        self._target, self._timeout, self._results = target, timeout, results
        self._processes = min(cores(), PROCESSES)
        self._world = world if isinstance(world, IsolatedWorld) and self._processes > 1 else None
        self._at_once = 1 if self._world is None else self._processes

    def of(self, cases: Iterable[Case], may_run: Callable[[int], int]) -> Iterator[Case]:
        """Yield the cases in their order; ``may_run`` says how many of so many may be run now."""
        waiting = iter(cases)
        while chunk := tuple(islice(waiting, max(1, may_run(self._at_once)))):
            self._run([case for case in chunk if case not in self._results])
            yield from chunk

    def _run(self, cases: list[Case]) -> None:
        if self._world is None or len(cases) < 2:
            return
        found = self._world.run_each(
            Share(_Case(self._target, self._timeout), tuple(cases)),
            min(self._processes, len(cases)),
            timeout=self._timeout,
            warm=self._target.takes_compiler,
        )
        for place, result in found.items():
            self._results[cases[place]] = result
        # A program that takes its process down does it again: then each case in its turn.
        self._at_once = min(2 * self._at_once, LARGEST) if len(found) == len(cases) else 1


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
