"""What a simulated run has left: picklable, and made an outcome where it is judged."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.checkers.deadlock import find_stuck
from harness.checkers.standing import standing_faults
from harness.decode import Decoder, Event
from harness.pickling import Pickled
from harness.trace import RankError, Status, Trace
from harness.worlds import Ending, Outcome, RankOutcome


@dataclass(slots=True)
class Recorded:
    """The events of all ranks in the order in which they happened, and how each rank ended."""

    events: list[tuple[int, Event]]
    statuses: list[str]
    ended: list[int]
    results: list[Pickled | None]
    ranks: list[RankOutcome]
    ending: Ending
    elapsed_s: float
    notes: dict[str, Any]

    def outcome(self, timeout: float) -> Outcome:
        """Return what the checkers judge."""
        decoder = Decoder(len(self.ranks))
        decoder.feed(self.events)
        for rank, outcome in enumerate(self.ranks):
            history = decoder.trace.ranks[rank]
            status = Status(self.statuses[rank])
            if status is not Status.RUNNING:
                history.status, history.ended_ns = status, self.ended[rank]
            if (result := self.results[rank]) is None:
                continue
            try:
                outcome.result = result.loads()
            except Exception as error:
                outcome.finished = False
                message = (
                    f"the program's result cannot be read back: {type(error).__name__}: {error}"
                )
                outcome.error = RankError("ResultError", message, (), self.ended[rank])
                history.status = Status.RAISED
        ending = self.ending
        if ending in ("stuck", "timeout"):
            ending = self._decided(decoder.trace)
        if ending == "finished" and not all(outcome.finished for outcome in self.ranks):
            ending = "failed"
        return Outcome(
            decoder.trace,
            self.ranks,
            ending,
            self.elapsed_s,
            backend="gloo",
            timeout_s=timeout,
            notes=self.notes | {"events": self.events, "results": self.results},
        )

    def _decided(self, trace: Trace) -> Ending:
        """Return how a run that came to no end is decided, as one of real ranks is.

        It is stuck where the trace shows why. If not, a rank waits where nobody sees it, and is
        given up after a time. What hangs only under NCCL's semantics is told otherwise.
        """
        if self.notes["simulated"].semantics not in ("gloo", "buffered"):
            return self.ending
        return "stuck" if find_stuck(trace) or standing_faults(trace) else "timeout"


def trace_hash(outcome: Outcome) -> str | None:
    """Return what two runs of one case must have in common; None for real ranks.

    Of every event of every rank, in order, with its time; files are named from the working folder.
    """
    events = outcome.notes.get("events")
    if events is None:
        return None
    here = f"{Path.cwd()}{os.sep}"
    named = [(rank, _from(here, event) if event[0] == "S" else event) for rank, event in events]
    return hashlib.sha256(repr(named).encode()).hexdigest()


def _from(folder: str, site: Event) -> Event:
    letter, at, number, file, *rest = site
    return letter, at, number, file.removeprefix(folder), *rest
