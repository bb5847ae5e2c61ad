"""One baton among the ranks' threads: exactly one rank runs, and who is next is decided here.

A rank keeps the baton until it waits for something that has not come, sleeps, or ends. When no rank
can go on, time goes on to the first that sleeps or whose wait gives up; when there is none, nothing
can ever change again. Nothing here depends on the machine's clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.worlds.simulated.unwinding import Pursuit, Unwind, unraisable_unwinds

TICK_NS = 1000  # between two events of the trace
STRIKES = 8  # at a rank that is told to end
POLLS = 1000  # in vain, before the time comes at which another rank's wait gives up


class Interleaving(Protocol):
    """Decides who runs next, and what comes true where several things may.

    ``met`` has how many possibilities each choice had so far, where that is written down.
    """

    @property
    def met(self) -> Sequence[int]:
        """Return it."""

    def next(self, ready: Sequence[int], last: int) -> int:
        """Return one of the ranks that can go on; ``last`` had the baton."""

    def choose(self, count: int) -> int:
        """Return which of so many possibilities comes true."""

    def interrupts(self) -> bool:
        """Whether the running rank loses the baton now, though it could go on."""


@dataclass(slots=True, eq=False)
class Fiber:
    """One rank's thread, and why it does not run."""

    rank: int
    state: Any  # what is swapped in while it runs
    ready: Callable[[], bool] | None = None  # None: it can go on
    deadline_ns: int | None = None  # when its sleep ends, or its wait gives up
    timed_out: bool = False
    doom: BaseException | None = None  # raised in it as soon as it runs
    over: bool = False
    callbacks: list[Callback] = field(default_factory=list)  # to run on this rank when they are due
    lock: Any = field(default_factory=threading.Lock)
    thread: threading.Thread | None = None
    ident: int = 0  # that thread's
    pursuit: Pursuit | None = None

    def pursued(self) -> Pursuit:
        """Return what ends this fiber's thread."""
        assert self.thread is not None
        assert self.thread.ident is not None
        if self.pursuit is None:
            self.pursuit = Pursuit(self.thread.ident)
        return self.pursuit

    def let_alone(self) -> None:
        """The program has ended: nothing more is raised on this fiber's thread."""
        if self.pursuit is not None:
            self.pursuit.stop()

    @property
    def can_go_on(self) -> bool:
        """Whether it would do something, had it the baton."""
        return not self.over and (
            self.doom is not None
            or self.timed_out
            or self.ready is None
            or self.ready()
            or (bool(self.callbacks) and any(callback.is_due() for callback in self.callbacks))
        )

    def run_callbacks(self) -> None:
        """Run what is due, on the fiber's own thread."""
        while (due := next((c for c in self.callbacks if c.is_due()), None)) is not None:
            self.callbacks.remove(due)
            due.run()


@dataclass(slots=True, eq=False)
class Callback:
    """What a rank has asked to be called for, when an operation has ended."""

    is_due: Callable[[], bool]
    run: Callable[[], None]


def _never() -> bool:
    return False


class Scheduler:
    """Runs fibers one at a time, to the end of them all or until none can go on."""

    def __init__(self, interleaving: Interleaving, patience_ns: int) -> None:
        self.interleaving = interleaving
        self._patience_ns = patience_ns  # of virtual time in which nothing is posted or ends
        self._quiet_since = 0
        self._polls = 0  # since something was posted or has ended
        self.fibers: list[Fiber] = []
        self.current: Fiber | None = None
        self.now_ns = 0
        self.slept_ns = 0  # of that, what ranks have slept or waited in vain
        self.switches = 0
        self.given_up: list[Fiber] = []
        self.polled = False  # whether a rank has asked if something has ended
        self.stuck = False  # no rank can ever go on
        self.ran_out = False  # virtual time passed, and nothing else happened
        self._finished = threading.Lock()

    def clock(self) -> int:
        """Return the time of an event, later than any before."""
        self.now_ns += TICK_NS
        self._quiet_since = self.now_ns
        self._polls = 0
        return self.now_ns

    def start(self, fibers: list[Fiber], body: Callable[[Fiber], None]) -> None:
        """Start a thread for each fiber, and give the first of them the baton."""
        self.fibers = fibers
        self._finished.acquire()

        def run(fiber: Fiber) -> None:
            fiber.ident = threading.get_ident()
            try:
                fiber.lock.acquire()
                fiber.state.enter()
                if not isinstance(fiber.doom, Unwind):  # else it never begins
                    body(fiber)
            except Unwind:
                fiber.let_alone()
            finally:
                fiber.let_alone()
                self._leave(fiber)

        for fiber in fibers:
            fiber.lock.acquire()
            fiber.thread = threading.Thread(
                target=run, args=(fiber,), name=f"rank {fiber.rank}", daemon=True
            )
            fiber.thread.start()
        first = self.interleaving.next([fiber.rank for fiber in fibers], len(fibers) - 1)
        self._hand_over(None, fibers[first])

    def wait(self, seconds: float) -> bool:
        """Wait on the calling thread until the fibers are over or stuck; False if not by then."""
        if not self._finished.acquire(timeout=seconds):
            return False
        self._finished.release()
        return True

    def block(self, ready: Callable[[], bool], timeout_ns: int | None = None) -> bool:
        """Keep the running rank from going on until ``ready()``; False when time ran out first."""
        fiber = self.running()
        deadline = None if timeout_ns is None else self.now_ns + timeout_ns
        while True:
            fiber.ready, fiber.deadline_ns = ready, deadline
            self._pass_on(fiber)
            in_time = not fiber.timed_out or ready()
            fiber.ready, fiber.deadline_ns, fiber.timed_out = None, None, False
            if fiber.callbacks:
                fiber.run_callbacks()
            if not in_time or ready():
                return in_time

    def call_back(self, is_due: Callable[[], bool], run: Callable[[], None]) -> None:
        """Run something on the running rank as soon as it is due, at the rank's next wait."""
        self.running().callbacks.append(Callback(is_due, run))

    def sleep(self, nanoseconds: int) -> None:
        """Let virtual time pass on the running rank: everybody else goes first."""
        self.block(_never, max(0, nanoseconds))

    def give_way(self) -> None:
        """Let the others go first: the running rank only polls."""
        fiber = self.running()
        self.polled = True
        self._polls += 1
        others = [other for other in self.fibers if other is not fiber and other.can_go_on]
        if others:
            self._hand_over(fiber, others[self._place(others, fiber)])
        elif (sleeper := self._first_sleeper()) is not None and (
            sleeper.ready is _never or self._polls > POLLS
        ):
            self._wake(sleeper)

    def maybe_interrupt(self, fiber: Fiber) -> None:
        """Let another rank than the running one go first, where the interleaving says so."""
        if fiber.doom is not None:
            self._raise(fiber)
        if self.interleaving.interrupts():
            self._pass_on(fiber)

    @property
    def on_this_thread(self) -> Fiber | None:
        """The fiber of the calling thread, where that is the one which has the baton."""
        fiber = self.current
        return fiber if fiber is not None and fiber.ident == threading.get_ident() else None

    def running(self) -> Fiber:
        """Return the fiber of the calling thread, which has the baton."""
        if (fiber := self.on_this_thread) is None:
            raise Unwind  # a thread that was given up, or is none of ours
        return fiber

    def owns(self, thread: threading.Thread) -> bool:
        """Whether a thread is a rank's, which may have been given up."""
        return any(fiber.thread is thread for fiber in self.fibers)

    def end_all(self, grace: float) -> None:
        """Raise Unwind in every fiber that is not over, one after another; for the main thread.

        Those that do not end within ``grace`` seconds each are given up: their threads go on by
        themselves, and are refused whatever they ask for.
        """
        with unraisable_unwinds():
            self._end_all(grace)

    def _end_all(self, grace: float) -> None:
        while alive := [fiber for fiber in self.fibers if not fiber.over]:
            for fiber in alive:
                fiber.doom = Unwind()
            running = self.current
            if running is None:
                self._finished.acquire(blocking=False)
                self._hand_over(None, alive[0])
            elif not running.over:
                running.pursued().strike()
            if self._press(grace):
                continue
            stubborn = self.current
            if stubborn is not None:
                stubborn.over = True
                self.given_up.append(stubborn)
                stubborn.state.leave()
                self.current = None

    def _press(self, grace: float) -> bool:
        """Strike whoever runs until all have ended; False when one holds out for that long."""
        pressed, times = self.current, 0
        while not self.wait(grace / STRIKES):
            running = self.current
            times = times + 1 if running is pressed else 0
            is_gone = running is not None and running.thread not in threading.enumerate()
            if times >= STRIKES or is_gone:
                return False
            pressed = running
            if running is not None and not running.over:
                running.pursued().strike()
        return True

    def join(self, grace: float) -> None:
        """Wait for the threads of the fibers, but for those that were given up."""
        for fiber in self.fibers:
            if fiber.thread is not None and fiber not in self.given_up:
                fiber.thread.join(grace)

    def _place(self, fibers: list[Fiber], last: Fiber) -> int:
        ranks = [fiber.rank for fiber in fibers]
        return ranks.index(self.interleaving.next(ranks, last.rank))

    def _pass_on(self, fiber: Fiber) -> None:
        """Give the baton to whoever can go on; return when it has come back."""
        following = self._following(fiber)
        if following is None:
            self.stuck = not self.ran_out
            self._hand_over(fiber, None)
        elif following is not fiber:
            self._hand_over(fiber, following)
        if fiber.doom is not None:
            self._raise(fiber)

    def _following(self, last: Fiber) -> Fiber | None:
        ready = [fiber for fiber in self.fibers if fiber.can_go_on]
        if ready:
            return ready[self._place(ready, last)] if len(ready) > 1 else ready[0]
        sleeper = self._first_sleeper()
        if sleeper is not None:
            self._wake(sleeper)
        return sleeper

    def _first_sleeper(self) -> Fiber | None:
        """Return who is the first to go on by the clock; None as well when that is too late."""
        timed = [f for f in self.fibers if not f.over and f.deadline_ns is not None]
        sleeper = min(timed, key=lambda f: (f.deadline_ns or 0, f.rank), default=None)
        if sleeper is None or sleeper.deadline_ns is None:
            return None
        if sleeper.deadline_ns - self._quiet_since > self._patience_ns:
            self.ran_out = True
            return None
        return sleeper

    def _wake(self, fiber: Fiber) -> None:
        assert fiber.deadline_ns is not None
        now, self.now_ns = self.now_ns, max(self.now_ns, fiber.deadline_ns)
        self.slept_ns += self.now_ns - now
        fiber.timed_out = True

    def _raise(self, fiber: Fiber) -> None:
        doom = fiber.doom
        assert doom is not None
        if isinstance(doom, Unwind):
            raise fiber.pursued().exception()
        fiber.doom = None  # a death is died once
        raise doom

    def _hand_over(self, giver: Fiber | None, taker: Fiber | None) -> None:
        """Pass the baton, with all that belongs to a rank; None: the main thread's turn."""
        self.switches += 1
        if giver is not None:
            giver.state.leave()
        self.current = taker
        if taker is None:
            self._finished.release()
        else:
            taker.lock.release()
        if giver is not None and not giver.over:
            giver.lock.acquire()
            giver.state.enter()

    def _leave(self, fiber: Fiber) -> None:
        """The fiber's body has ended: hand over for the last time."""
        fiber.over = True
        if self.current is not fiber:
            return  # it was given up
        following = self._following(fiber)
        if following is None and not all(other.over for other in self.fibers):
            self.stuck = not self.ran_out
        self._hand_over(fiber, following)
