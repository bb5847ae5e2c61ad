"""One function over many items, in several processes of the simulated world at once.

A process that an item takes down loses only what it held: those items are tried again, one in a
process, and what is lost again is told to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from harness.ahead import PROCESSES, Item, Result, Share, cores
from harness.session import shared_world
from harness.worlds.simulated.isolated import IsolatedWorld

AT_ONCE = 8  # items that a process is given before it tells of them
PATIENCE_S = 300.0  # without a sign of life


def spread(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    lost: Callable[[Item], Result],
    *,
    warm: bool = True,
) -> Iterator[Result]:
    """Yield ``function(item)`` for each item, in order; ``lost(item)`` where its process dies.

    Function, items and results travel by pickle; ``warm`` as a program's. KeyboardInterrupt when
    the user stops it.
    """
    world = shared_world("sim", isolated=True)
    assert isinstance(world, IsolatedWorld)
    processes = min(cores(), PROCESSES)
    for first in range(0, len(items), processes * AT_ONCE):
        chunk = tuple(items[first : first + processes * AT_ONCE])
        share = Share(function, chunk)
        found = world.run_each(share, min(processes, len(chunk)), timeout=PATIENCE_S, warm=warm)
        for place, item in enumerate(chunk):
            if place in found:
                yield found[place]
                continue
            alone = world.run_each(Share(function, (item,)), 1, timeout=PATIENCE_S, warm=warm)
            yield alone[0] if alone else lost(item)
