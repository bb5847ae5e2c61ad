"""One function over many items, in several processes of the simulated world at once.

A process that an item takes down loses only what it held: those items are tried again, one in a
process, and what is lost again is told to the caller.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from harness.ahead import PROCESSES, cores
from harness.session import shared_world
from harness.worlds import RankContext
from harness.worlds.simulated.isolated import IsolatedWorld

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_ONCE = 8  # items that a process is given before it tells of them
PATIENCE_S = 300.0  # without a sign of life


@dataclass(frozen=True, slots=True)
class _Share(Generic[Item, Result]):
    """What each process runs: every so many-th of the items."""

    function: Callable[[Item], Result]
    items: tuple[Item, ...]

    def __call__(self, context: RankContext) -> dict[int, Result]:
        """Return results by place, as many as there are before a rank outlives its run."""
        found: dict[int, Result] = {}
        threads = threading.active_count()
        for place in range(context.rank, len(self.items), context.world_size):
            found[place] = self.function(self.items[place])
            if threading.active_count() > threads:
                break
        return found


def spread(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    lost: Callable[[Item], Result],
) -> Iterator[Result]:
    """Yield ``function(item)`` for each item, in order; ``lost(item)`` where its process dies.

    Function, items and results travel by pickle. KeyboardInterrupt when the user stops it.
    """
    world = shared_world("sim", isolated=True)
    assert isinstance(world, IsolatedWorld)
    processes = min(cores(), PROCESSES)
    for first in range(0, len(items), processes * AT_ONCE):
        chunk = tuple(items[first : first + processes * AT_ONCE])
        share = _Share(function, chunk)
        found = world.run_each(share, min(processes, len(chunk)), timeout=PATIENCE_S)
        for place, item in enumerate(chunk):
            if place in found:
                yield found[place]
                continue
            alone = world.run_each(_Share(function, (item,)), 1, timeout=PATIENCE_S)
            yield alone[0] if alone else lost(item)
