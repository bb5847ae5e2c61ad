"""Functions of other modules that do something else while a simulated run is under way."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.targets import loading
from harness.worlds.simulated.simulation import Simulation


@dataclass(slots=True, eq=False)
class _Stand:
    """What stands in a function's place; ``live`` is what it does now, None: the original."""

    original: Any
    wrapper: Any
    live: Any = None


_stands: dict[tuple[Any, str], _Stand] = {}


def _stand_for(owner: Any, name: str, original: Any) -> _Stand:
    """Return the one in that place, the same in every run.

    A user's module may have taken it by its name in an earlier run, and is kept from case to case.
    """
    known = _stands.get((owner, name))
    if known is not None and known.original is original:
        return known

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (stand.live or original)(*args, **kwargs)

    # A builtin binds to no object, though it be a class's attribute; nor does a partial.
    bare = isinstance(original, types.BuiltinFunctionType)
    wrapper = functools.update_wrapper(functools.partial(call), original) if bare else call
    stand = _stands[owner, name] = _Stand(original, wrapper)
    return stand


class Replacing:
    """Replaces functions for one run; :meth:`remove` puts the originals back."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._replaced: list[tuple[Any, str, Any, _Stand]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Let ``make(original)`` be called instead."""
        original = getattr(owner, name)
        there = vars(owner).get(name, original)  # of a class what stands there, not bound
        stand = _stand_for(owner, name, original)
        stand.live = make(original)
        self._replaced.append((owner, name, there, stand))
        setattr(owner, name, stand.wrapper)

    def remove(self) -> None:
        """Put the originals back."""
        for owner, name, there, stand in reversed(self._replaced):
            stand.live = None
            setattr(owner, name, there)
        self._replaced.clear()

    def is_a_rank(self) -> bool:
        """Whether the calling thread is the running rank's."""
        return self._simulation.scheduler.on_this_thread is not None

    def user_who_called(self) -> str | None:
        """Return the user's line that called what was replaced; None for a package's own."""
        frame: Any = sys._getframe(3)
        while frame is not None and loading.is_standard(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None or not loading.is_users(frame.f_code.co_filename):
            return None
        return f"{frame.f_code.co_filename}:{frame.f_lineno}"
