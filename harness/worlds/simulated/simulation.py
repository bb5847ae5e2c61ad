"""One run: the ranks' requests, groups and deaths, between the scheduler and the network."""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from harness.hazards.queues import Queues
from harness.semantics import NCCL
from harness.worlds import Simulated
from harness.worlds.simulated import data
from harness.worlds.simulated.group import SimProcessGroup, key_of
from harness.worlds.simulated.guard import Flights
from harness.worlds.simulated.rendezvous import Rendezvous
from harness.worlds.simulated.request import Request
from harness.worlds.simulated.scheduler import Scheduler
from harness.worlds.simulated.store import Stores
from harness.worlds.simulated.unwinding import Killed, Unwind

NOTICED_NS = 50_000_000  # after which a death has been noticed everywhere
ABORTED = -int(signal.SIGABRT)
_LONG = timedelta(days=1)  # the default group is of no use after its timeout: never waited for
_SHORT = timedelta(minutes=10)  # a group's timeout below this is meant to be used


class Simulation:
    """What the ranks of one run share."""

    def __init__(self, world_size: int, scheduler: Scheduler, how: Simulated) -> None:
        self.world_size = world_size
        self.scheduler = scheduler
        self.network: Any = self._network(how)
        self.stores = Stores(scheduler)
        self.refusal: str | None = None  # what cannot be simulated: the run says nothing
        self.flights: list[Flights | None] = [
            Flights() if how.guard else None for _ in range(world_size)
        ]
        self.takes_any = False  # a receive named no source: the order of the ranks decides
        self._batches: dict[int, int] = {}  # rank → the batch that it is posting
        self._batch = 0
        self._posting: Request | None = None
        self._left: dict[int, int] = {}  # rank → when it died
        self._epochs = [0] * world_size  # how often each rank has initialised

    def _network(self, how: Simulated) -> Rendezvous | Queues:
        if how.semantics in NCCL:
            semantics: Any = how.semantics
            return Queues(semantics, how.capacity, self._deliver, self._meet, _keep)
        choose = self.scheduler.interleaving.choose
        return Rendezvous(self._deliver, self._abort, how.semantics == "buffered", choose)

    @property
    def is_gloo(self) -> bool:
        """Whether collectives are carried out as gloo does it."""
        return isinstance(self.network, Rendezvous)

    @property
    def rank(self) -> int:
        """Return the running rank."""
        return self.scheduler.running().rank

    def refuse(self, what: str) -> BaseException:
        """Note that the program cannot be simulated; raise what this returns."""
        self.refusal = self.refusal or what
        for fiber in self.scheduler.fibers:
            fiber.doom = Unwind()
        return Unwind()

    def post(self, request: Request) -> None:
        """Hand a request of the running rank to the network."""
        fiber = self.scheduler.current
        if fiber is None or fiber.ident != threading.get_ident():
            if self.scheduler.owns(threading.current_thread()):
                raise Unwind  # it was given up
            raise self.refuse("a thread of its own that communicates")
        self.scheduler.maybe_interrupt(fiber)
        self.takes_any |= request.kind == "recv" and request.peer is None
        request.batch = self._batches.get(fiber.rank)
        self._posting = request
        self.network.post(request)
        self._posting = None
        if not request.admitted:
            self.scheduler.block(lambda: request.admitted)

    def batch(self, original: Any) -> Any:
        """Wrap torch's ``batch_isend_irecv``: what it posts goes to the network as one batch."""

        @functools.wraps(original)
        def batch_isend_irecv(*args: Any, **kwargs: Any) -> Any:
            rank = self.rank
            self._batch += 1
            self._batches[rank] = self._batch
            try:
                return original(*args, **kwargs)
            finally:
                del self._batches[rank]
                self.network.close_batch(rank)

        return batch_isend_irecv

    def _deliver(self, send: Request, receive: Request) -> None:
        message = receive.payload
        changed = message.has_changed
        if receive is self._posting:
            message.before = message.tensor.detach().clone()
        try:
            data.deliver(send.payload.tensor, message.tensor)
            if message.checksum is not None and not changed:
                message.watch()
        except data.SizesDifferError:
            receive.done = False
            self._abort(receive.rank)

    def _abort(self, rank: int) -> None:
        """A rank gets more than its buffer holds."""
        self.kill(rank, ABORTED)

    def _meet(self, request: Request, parts: Sequence[Request]) -> None:
        part = request.payload
        if part is None:
            return
        sizes = {other.payload.size for other in parts}
        if len(sizes) > 1:
            self.kill(request.rank, ABORTED)
            return
        part.finish(data.Inputs({other.rank: other.payload.kept for other in parts}))

    def kill(self, rank: int, status: int) -> None:
        """Let a rank die as soon as it would do something; the others find its connections cut."""
        fiber = self.scheduler.fibers[rank]
        if not fiber.over and fiber.doom is None:
            fiber.doom = Killed(status)
        self._cut(rank)

    def _cut(self, rank: int) -> None:
        """Cut a dead rank's connections; under NCCL nobody notices."""
        self._left[rank] = self.scheduler.now_ns
        if isinstance(self.network, Rendezvous):
            self.network.kill(rank)

    def has_noticed(self, request: Request) -> bool:
        """Whether a message is refused at its post: its peer has left some time ago."""
        now = self.scheduler.now_ns
        return request.peer is None or now - self._left.get(request.peer, 0) > NOTICED_NS

    def cut(self, request: Request) -> None:
        """The running rank's wait has timed out: gloo closes its connections in that group."""
        if isinstance(self.network, Rendezvous):
            self.network.cut(request.group, request.rank)

    def lose(self, request: Request) -> None:
        """The handle of a receive was dropped as soon as posted, and its message is on its way.

        Which comes first is left to chance on real ranks; by default the drop, which is near.
        """
        if not isinstance(self.network, Rendezvous):
            return
        self.takes_any = True
        if not self.scheduler.interleaving.choose(2):
            self.network.lose(request)
            request.payload.restore()

    def die(self, status: int) -> None:
        """End the running rank as a process that ends without a word."""
        rank = self.rank
        if status != 0:
            self._cut(rank)
        raise Killed(status)

    def initialising(self) -> int:
        """Return how often the running rank has initialised, this time included."""
        self._epochs[self.rank] += 1
        return self._epochs[self.rank]

    def create(self, options: Any, _: Any = None) -> SimProcessGroup:
        """Make the running rank's end of a new group, when all of its members have come."""
        members = tuple(options.global_ranks_in_group) or tuple(range(options.group_size))
        rank = self.rank
        key = key_of(options.group_id, members, self._epochs[rank])
        meeting = Request(rank, "new_group", f"new:{key}", members)
        self.network.post(meeting)
        if not meeting.ended:
            self.scheduler.block(lambda: meeting.ended)
        if meeting.error is not None:
            raise RuntimeError(f"connectFullMesh failed: {meeting.error}")
        is_default = not options.global_ranks_in_group
        given = _LONG if is_default or options.timeout >= _SHORT else options.timeout
        return SimProcessGroup(self, options.group_rank, members, key, given)


def _keep(send: Request) -> None:
    """Keep a message's data: its send is done before its receive runs."""
    send.payload.keep()
