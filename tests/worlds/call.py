"""How a world calls a program ``function(rank, world_size)``; ranks import this, so it is small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.worlds import RankContext

Function = Callable[[int, int], Any]


@dataclass(frozen=True)
class Call:
    """A program as the entry of a world."""

    function: Function

    def __call__(self, context: RankContext) -> Any:
        return self.function(context.rank, context.world_size)
