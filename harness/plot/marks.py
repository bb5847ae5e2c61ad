"""What of a drawing is marked: actions that are wrong, and those that never start."""

from __future__ import annotations

from harness.plot.placed import Placed
from pipeline.actions import Action

WRONG = "!"
WAITS = "~"


class Marks:
    """Tells which actions of a plan are marked, and how."""

    def __init__(self, placed: Placed) -> None:
        self._wrong = placed.wrong()
        self._stuck = placed.stuck

    def of(self, action: Action) -> str:
        """Return an action's mark, mostly none."""
        return WRONG if self._wrong and self._is_wrong(action) else ""

    def stuck(self, rank: int) -> tuple[str, Action] | None:
        """Return the action that a rank never gets past, with its mark."""
        if (action := self._stuck.get(rank)) is None:
            return None
        return self.of(action) or WAITS, action

    def _is_wrong(self, action: Action) -> bool:
        return not self._wrong.isdisjoint({action, *action.parts})


LEGEND = f"{WRONG} has a problem, {WAITS} never starts: what it waits for never comes"
