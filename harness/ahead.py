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

from harness.case import Case
from harness.execute import CaseResult, execute
from harness.targets import Target
from harness.worlds import RankContext, World
from harness.worlds.simulated.isolated import HostedWorld, IsolatedWorld

LARGEST = 24  # cases that are run at once: few enough to wait for
PROCESSES = 4  # at most: each of them has torch in memory


@dataclass(frozen=True, slots=True)
class Cases:
    """What each of the processes runs: every so many-th of the cases."""

    target: Target
    cases: tuple[Case, ...]
    timeout: float

    def __call__(self, context: RankContext) -> dict[int, CaseResult]:
        """Return the results by the cases' places; without those that came to nothing."""
        world = HostedWorld()
        found: dict[int, CaseResult] = {}
        threads = threading.active_count()
        for place in range(context.rank, len(self.cases), context.world_size):
            try:
                result = execute(self.target, self.cases[place], world, self.timeout)
            except Exception:  # whoever runs it in its turn is told
                continue
            if threading.active_count() > threads:
                break  # a rank that could not be ended goes on in this process
            found[place] = result
        return found


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
            Cases(self._target, tuple(cases), self._timeout),
            min(self._processes, len(cases)),
            timeout=self._timeout,
        )
        for place, result in found.items():
            self._results[cases[place]] = result
        # A program that takes its process down does it again: then each case in its turn.
        self._at_once = min(2 * self._at_once, LARGEST) if len(found) == len(cases) else 1


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
