"""Where each rank's idle time comes from."""

from __future__ import annotations

from dataclasses import dataclass

from harness.plot.causes import Causes
from harness.plot.placed import Placed, Step
from pipeline.actions import Action
from pipeline.coded import COMMS, FORWARD, PAIR, SEND_F


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
    row, spans = placed.plan.coded.rows[rank], placed.spans[rank]
    before, start_up = 0.0, 0.0
    waited = {True: 0.0, False: 0.0}
    longest, at_longest, cause_of_longest = 0.0, 0, (0, 0)
    computed = False
    for at, (start, end) in enumerate(spans):
        if start > before and not computed:
            start_up += start - before
        elif start > before and (cause := causes.of((rank, at))) is not None:
            waited[_is_forward(placed, rank, at, cause)] += start - before
            if start - before > longest:
                longest, at_longest, cause_of_longest = start - before, at, cause
        computed = computed or row.kinds[at] not in COMMS
        before = end
    wait = None
    if longest:
        action, needed = placed.action((rank, at_longest)), placed.action(cause_of_longest)
        wait = Wait(round(longest, 9), action, needed)
    return Sources(
        round(start_up, 9),
        round(waited[True], 9),
        round(waited[False], 9),
        round(placed.makespan - before, 9),
        wait,
    )


def _is_forward(placed: Placed, rank: int, at: int, cause: Step) -> bool:
    """Whether what is waited for is an activation; of a pair that is for the pair itself to say.

    A pair waits for one of its parts: its forward needs the stage before, its backward the next.
    """
    needed_row = placed.plan.coded.rows[cause[0]]
    kind = needed_row.kinds[cause[1]]
    if kind != PAIR:
        return kind in (FORWARD, SEND_F)
    row = placed.plan.coded.rows[rank]
    made = needed_row.stages[cause[1]], needed_row.microbatches[cause[1]]
    is_forward = row.kinds[at] in (FORWARD, PAIR)
    return is_forward and made == (row.stages[at] - 1, row.microbatches[at])
