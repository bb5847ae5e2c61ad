"""The handle of a simulated operation, and its future."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
from torch._C._distributed_c10d import Work

from harness import wrappers
from harness.worlds.simulated.request import Request

if TYPE_CHECKING:
    from harness.worlds.simulated.scheduler import Scheduler
    from harness.worlds.simulated.simulation import Simulation

NO_TIMEOUT = timedelta(0)
FOR_EVER_NS = 86_400 * 10**9
BARE: Any = object()  # the result of a handle that can only be waited for


class SimWork(Work):
    """What ``isend``, ``irecv`` and collectives return."""

    flight: Any = None  # of a guarded run
    flights: Any = None
    _waited = False

    def __init__(
        self, request: Request, simulation: Simulation, result: Any, timeout: timedelta
    ) -> None:
        super().__init__()
        self.request = request
        self._simulation = simulation
        self._scheduler = simulation.scheduler
        self._posted_ns = simulation.scheduler.now_ns
        self._result = result
        self._timeout = timeout  # of the group

    def __del__(self) -> None:
        request = self.request
        if self.flights is not None:
            self.flights.end(self)
        if not request.ended:
            self._simulation.network.withdraw(request)
        elif request.kind == "recv" and self._scheduler.now_ns == self._posted_ns:
            self._simulation.lose(request)

    def wait(self, timeout: timedelta = NO_TIMEOUT) -> bool:
        """Return when the operation has ended; RuntimeError when it failed, or time ran out."""
        request = self.request
        if self.flights is not None:
            self.flights.wait(self)
            self.flights = None
        if self._waited and request.done and not request.is_collective and self._simulation.is_gloo:
            # gloo waits for another message, which never comes
            self._scheduler.block(lambda: False, FOR_EVER_NS)
        if not request.ended:
            given = timeout if timeout.total_seconds() > 0 else self._timeout
            limit = None if given.days else int(given.total_seconds() * 1e9)
            if not self._scheduler.block(lambda: request.ended, limit):
                self._time_out(given)
        self._waited = True
        if request.error is not None:
            raise request.error
        return True

    def _time_out(self, after: timedelta) -> None:
        request = self.request
        if request.is_collective and after is not self._timeout:
            raise RuntimeError("Operation timed out!")  # it goes on all the same
        kind = "recv" if request.is_collective else request.kind
        request.error = RuntimeError(
            f"Timed out waiting {after.total_seconds() * 1000:.0f}ms for "
            f"{kind} operation to complete"
        )
        self._simulation.cut(request)

    def is_completed(self) -> bool:
        """Whether it has ended; of a send or receive that nobody waited for gloo never says so."""
        if not self._is_known_to_have_ended():
            self._scheduler.give_way()
        return self._is_known_to_have_ended()

    def _is_known_to_have_ended(self) -> bool:
        if self._result is BARE:
            return False
        return self.request.ended if self.request.is_collective else self._waited

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self.request.done

    def exception(self) -> Any:
        """Return what went wrong, or None."""
        return self.request.error

    def source_rank(self) -> int:
        """Return the group rank that a received message came from."""
        request = self.request
        source = request.match.rank if request.match is not None else request.peer
        assert source is not None
        return request.members.index(source)

    _source_rank = source_rank

    def result(self) -> Any:
        """Return the output tensors; RuntimeError where gloo has none to return."""
        if self._result is BARE or not self.request.is_collective:
            raise RuntimeError("result() not implemented.")
        if not self.request.ended:
            raise RuntimeError("Work needs to be completed before calling result().")
        return self._result

    def synchronize(self) -> None:
        """Wait, as on a CPU."""
        self.wait()

    def get_future(self) -> Any:
        """Return a future of the output tensors.

        It is complete already where torch's C++ asks, which would wait for it without our knowing.
        """
        if self._result is BARE or not self.request.is_collective:
            raise RuntimeError("Work::getFuture not implemented.")
        caller = sys._getframe(2).f_code  # the recorder's wrapper is between
        future = SimFuture(self)
        if "get_future" not in caller.co_names:
            future.wait()
        else:  # others may wait for it, as collect_all's future does
            self._scheduler.call_back(future.done, future.complete)
        return future


class SimFuture(torch.futures.Future):  # type: ignore[type-arg]
    """A future whose ``wait`` lets the other ranks go on."""

    def __init__(self, work: SimWork | None, before: SimFuture | None = None) -> None:
        super().__init__()
        origin = work if work is not None else before
        assert origin is not None
        self._scheduler: Scheduler = origin._scheduler
        self._work = work
        self._before = before
        self._then: Callable[[Any], Any] | None = None

    def wait(self) -> Any:
        """Return the value when it is there."""
        if not super().done():
            if self._work is not None:
                self._work.wait()
            else:
                assert self._before is not None
                self._before.wait()
        if not super().done():  # it may have come to it while this rank waited
            if self._work is not None:
                self.set_result(self._work.result())
            else:
                assert self._before is not None
                assert self._then is not None
                self.set_result(self._then(self._before))
        return super().wait()

    def complete(self) -> None:
        """Take the value of a work that has ended, though nobody has waited for it."""
        if super().done() or self._work is None:
            return
        error = self._work.request.error
        if error is None:
            self.set_result(self._work.result())
        else:
            self.set_exception(error)

    def done(self) -> bool:
        """Whether the value is there, or could be without waiting."""
        if super().done():
            return True
        origin = self._work if self._work is not None else self._before
        if isinstance(origin, SimWork):
            return origin.request.ended
        return origin is not None and origin.done()

    def value(self) -> Any:
        """Return the value."""
        return self.wait()

    def then(self, callback: Callable[[Any], Any]) -> SimFuture:
        """Return the future of ``callback(self)``, which runs as soon as this rank waits."""
        following = SimFuture(None, self)
        following._then = callback
        self._scheduler.call_back(self.done, lambda: _ignore(following.wait()))
        return following


def _ignore(value: Any) -> None:
    """Take a value that nobody asks for."""


for _name in ("wait", "is_completed", "get_future"):
    setattr(SimWork, _name, wrappers.WORK[_name](getattr(SimWork, _name)))
