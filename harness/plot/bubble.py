"""Where each rank's idle time comes from."""

from __future__ import annotations

from dataclasses import dataclass

from harness.plot.causes import Causes
from harness.plot.placed import Placed
from pipeline.actions import Action, Kind


@dataclass(frozen=True, slots=True)
class Wait:
    """A rank's idle time before an action, for what another one makes."""

    length: float
    action: Action
    needed: Action

    def to_json(self) -> dict[str, str | float]:
        """Return it as plain data."""
        return {"length": self.length, "action": str(self.action), "for": str(self.needed)}


@dataclass(frozen=True, slots=True)
class Sources:
    """One rank's idle time: the four parts are all of it."""

    start_up: float
    """Before its first action."""
    activations: float
    """Between two actions, until a forward elsewhere is done."""
    gradients: float
    """Between two actions, until a backward elsewhere is done."""
    end: float
    """After its last action; of a rank that never gets on, until the others end."""
    longest: Wait | None
    """The longest wait between two actions."""


def sources(placed: Placed, causes: Causes, rank: int) -> Sources:
    """Split a rank's idle time by what it waits for."""
    before, start_up = 0.0, 0.0
    waited = {True: 0.0, False: 0.0}
    longest: Wait | None = None
    computed = False
    for at, (action, (start, end)) in enumerate(placed.running(rank)):
        if start > before and not computed:
            start_up += start - before
        elif start > before and (cause := causes.of((rank, at))) is not None:
            needed = placed.action(cause)
            waited[_is_forward(action, needed)] += start - before
            if longest is None or start - before > longest.length:
                longest = Wait(round(start - before, 9), action, needed)
        computed |= action.kind.is_compute
        before = end
    return Sources(
        round(start_up, 9),
        round(waited[True], 9),
        round(waited[False], 9),
        round(placed.makespan - before, 9),
        longest,
    )


def _is_forward(action: Action, needed: Action) -> bool:
    """Whether what is waited for is an activation; of a pair that is for the pair itself to say.

    A pair waits for one of its parts: its forward needs the stage before, its backward the next.
    """
    if not needed.overlapped:
        return needed.kind in (Kind.F, Kind.SEND_F)
    forward = action.parts[0]
    return Action(forward.stage - 1, Kind.F, forward.microbatch) in needed.parts
