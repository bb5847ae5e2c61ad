"""Watches the ranks of one case until it is decided."""

from __future__ import annotations

import pickle
import re
import selectors
import time
from contextlib import suppress
from typing import Any

from harness.checkers.deadlock import find_stuck
from harness.checkers.standing import standing_faults
from harness.decode import Decoder
from harness.frames import Frames
from harness.trace import Frame, RankError, Status
from harness.worlds import Echo, Ending, RankOutcome
from harness.worlds.server import RankProcess, Server, StoreProcess

POLL_S = 0.01
OUTPUT_S = 0.02  # for one rank's output, before the others have their turn
LAST_OUTPUT_S = 1.0  # for what a rank has printed by the end: what it started may go on
FAULT_SETTLE_S = 0.5  # a fault is known and nothing moves any more
FAILURE_GRACE_S = 10.0  # for the other ranks, after one has failed


class ServerGoneError(Exception):
    """The fork server ended in the middle of a case."""


class StoreGoneError(Exception):
    """The store of the ranks ended in the middle of a case."""


class Watch:
    """One case's ranks, from the moment they have their job."""

    def __init__(
        self,
        ranks: list[RankProcess],
        server: Server,
        store: StoreProcess,
        *,
        timeout: float,
        limit: float | None = None,
        settle: float,
        backend: str,
        echo: Echo | None,
    ) -> None:
        self._ranks = ranks
        self._server = server
        self._store = store
        self._timeout = timeout
        self._until = float("inf") if limit is None else time.monotonic() + limit
        self._settle = settle
        self._backend = backend
        self._echo = echo
        self.decoder = Decoder(len(ranks))
        self.outcomes = [RankOutcome(rank) for rank in range(len(ranks))]
        self._written = [0] * len(ranks)
        self._changed = self._printed = time.monotonic()
        self._failed_at: float | None = None
        self._judged = self._stuck = False
        self._faulty: bool | None = None  # not looked at yet

    def run(self) -> Ending:
        """Return how the case ended: at once when it is decided, else after the timeout."""
        selector = selectors.DefaultSelector()
        with selector:
            for index, rank in enumerate(self._ranks):
                selector.register(rank.control, selectors.EVENT_READ, ("control", index))
                selector.register(rank.output_fd, selectors.EVENT_READ, ("output", index))
            selector.register(self._server.socket, selectors.EVENT_READ, ("server", 0))
            while True:
                for key, _ in selector.select(POLL_S):
                    what, index = key.data
                    if not self._take(what, index):
                        selector.unregister(key.fileobj)
                for index, rank in enumerate(self._ranks):
                    rank.require()
                    self._notice_death(index)
                self._read_rings()
                if self._store.has_ended:
                    raise StoreGoneError
                if (ending := self._decide()) is not None:
                    if ending != "stuck":  # then nothing has come since it was looked at
                        self._drain()
                    if ending == "failed":
                        self._look_at_the_store_again()
                    return ending

    def _look_at_the_store_again(self) -> None:
        """Raise StoreGoneError when the ranks failed because it is gone: they may be first."""
        self._server.pump(0.02)
        if self._store.has_ended:
            raise StoreGoneError

    def _take(self, what: str, index: int) -> bool:
        """Take in one thing that happened; False when there will be no more of it."""
        rank, outcome = self._ranks[index], self.outcomes[index]
        if what == "server":
            if not self._server.pump():
                raise ServerGoneError
            return True
        if what == "output":
            if self.read_output(index):
                self._printed = time.monotonic()
            return rank.output_open
        return self._take_answer(rank, outcome)

    def _take_answer(self, rank: RankProcess, outcome: RankOutcome) -> bool:
        try:
            for answer in rank.control.receive():
                self._answered(outcome, answer)
        except EOFError:
            return False  # its end is told by the server, with its status
        except Exception as error:  # what it sent is not to be had here
            at = time.monotonic_ns()
            self._answered(outcome, ("raised", _unreadable(error, at), at))
        return True

    def _answered(self, outcome: RankOutcome, answer: tuple[Any, ...]) -> None:
        kind, value, at = answer
        self._drain()
        history = self.decoder.trace.ranks[outcome.rank]
        history.ended_ns = at
        if kind == "finished":
            try:
                outcome.finished, outcome.result = True, pickle.loads(value)
            except Exception as error:  # what it returned is not to be had here
                outcome.finished, outcome.error = False, _unreadable(error, at)
        else:
            outcome.error = value
        if outcome.finished:
            history.status = Status.FINISHED
        else:
            history.status = Status.RAISED
            self._failed_at = self._failed_at or time.monotonic()
        self._touch()

    def _notice_death(self, index: int) -> None:
        rank, outcome = self._ranks[index], self.outcomes[index]
        if rank.exit_status is None or outcome.exit_status is not None:
            return
        self._take_answer(rank, outcome)  # its last word, if there is one
        self._drain()
        outcome.exit_status = rank.exit_status
        history = self.decoder.trace.ranks[index]
        if history.status is Status.RUNNING:
            history.ended_ns = time.monotonic_ns()
            if rank.exit_status == 0:  # os._exit(0): torchrun takes it for a good end as well
                history.status, outcome.finished = Status.FINISHED, True
            else:
                history.status = Status.DIED
                self._failed_at = self._failed_at or time.monotonic()
        self._touch()

    def read_output(self, index: int, seconds: float = OUTPUT_S) -> bool:
        """Take what a rank has printed and pass it on, for so long; return whether it had."""
        rank, until, found = self._ranks[index], time.monotonic() + seconds, False
        while (lines := rank.read_output()) is not None:
            found = True
            for line in lines:
                if self._echo is not None:
                    self._echo(index, line)
            if time.monotonic() >= until:
                break
        return found

    def _touch(self) -> None:
        self._changed, self._judged, self._faulty = time.monotonic(), False, None

    def _read_rings(self) -> None:
        written = [rank.ring.written for rank in self._ranks]
        if written != self._written:
            self._written = written
            self._touch()
            if max(rank.ring.backlog for rank in self._ranks) > 0.25:
                self._drain()

    def _drain(self) -> None:
        """Feed all events that are there, by their time."""
        events = [
            (index, event) for index, rank in enumerate(self._ranks) for event in rank.ring.read()
        ]
        events.sort(key=lambda item: item[1][1])
        self.decoder.feed(events)

    def _decide(self) -> Ending | None:
        """Return the ending once nothing that could still happen would change the verdict."""
        trace = self.decoder.trace
        if all(history.status is not Status.RUNNING for history in trace.ranks):
            self._drain()
            finished = all(history.status is Status.FINISHED for history in trace.ranks)
            return "finished" if finished else "failed"
        quiet = time.monotonic() - self._changed
        if time.monotonic() >= self._until:
            return "timeout"
        if quiet < POLL_S:
            return None
        if not self._judged:
            self._drain()
            self._judged = True
            self._stuck = bool(find_stuck(trace, self._backend))
        if self._stuck and quiet >= self._settle:
            return "stuck"
        if quiet >= FAULT_SETTLE_S and self._stands():
            return "stuck"
        if self._failed_at is not None and time.monotonic() - self._failed_at > FAILURE_GRACE_S:
            return "failed"
        since_printed = time.monotonic() - self._printed
        return "timeout" if min(quiet, since_printed) >= self._timeout else None

    def _stands(self) -> bool:
        """Whether there is an error that no rank can undo any more."""
        if self._faulty is None:
            self._faulty = bool(standing_faults(self.decoder.trace, self._backend))
        return self._faulty

    def collect_stacks(self) -> None:
        """Ask every rank that still runs where it is."""
        frames = Frames()
        for rank, outcome in zip(self._ranks, self.outcomes, strict=True):
            if not outcome.finished and outcome.error is None:
                outcome.stack = parse_stacks(rank.stack_dump(), frames)

    def finish(self) -> None:
        """Take in the last output; no events: what ranks do while they are killed is our doing."""
        for index, rank in enumerate(self._ranks):
            with suppress(OSError):
                self.read_output(index, LAST_OUTPUT_S)
            if (line := rank.end_line()) is not None and self._echo is not None:
                self._echo(index, line)
            self.outcomes[index].output = rank.output


def _unreadable(error: Exception, at: int) -> RankError:
    message = f"the program's result cannot be read back: {type(error).__name__}: {error}"
    return RankError("ResultError", message, (), at)


_LINE = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')


def parse_stacks(dump: str, frames: Frames) -> tuple[Frame, ...]:
    """Read faulthandler's dump; return the main thread's frames in the user's code, inner last."""
    current: list[Frame] = []
    for block in dump.split("\n\n"):
        lines = [match for line in block.splitlines() if (match := _LINE.match(line))]
        user = [
            Frame(m["file"], int(m["line"]), m["function"])
            for m in lines
            if frames.is_user(m["file"])
        ]
        if lines:
            current = user or current  # the main thread comes last
    return tuple(reversed(current))
