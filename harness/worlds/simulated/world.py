"""The world ``sim``: the ranks of a program as threads of this process, one running at a time."""

from __future__ import annotations

import contextlib
import gc
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import torch.distributed as dist

from harness import instrument
from harness import recorder as recording
from harness.decode import Event
from harness.frames import Frames
from harness.pickling import Pickled, dumps_apart
from harness.recorder import Recorder
from harness.targets import aside
from harness.trace import Frame, Status
from harness.worlds import Echo, Ending, Outcome, Program, RankContext, RankOutcome, WorldError
from harness.worlds.failure import describe
from harness.worlds.job import pickled_program, torchrun_environment
from harness.worlds.simulated import interleavings, torch_private
from harness.worlds.simulated.calls import Calls, frames_of, init_process_group
from harness.worlds.simulated.interruptions import Interruptions
from harness.worlds.simulated.output import Output, RankStream
from harness.worlds.simulated.own_process import OwnProcess
from harness.worlds.simulated.recorded import Recorded
from harness.worlds.simulated.scheduler import Fiber, Scheduler
from harness.worlds.simulated.simulation import Simulation
from harness.worlds.simulated.state import Modules, RankState, Surroundings, copy_of_environment
from harness.worlds.simulated.unwinding import Killed, Unwind

POLL_S = 0.05  # how often the watchdog looks
PORT = 29500  # that nobody listens at: every store is simulated
_NATIVE = "Could not find the default backend type"  # says torch 2.14 in DDP's constructor
_GPU = "No backend type associated with device type cuda"  # says torch, as ours is for CPUs
GRACE_S = 2.0  # for a rank that is told to end


class _Sink:
    """Takes one rank's events into the common list."""

    __slots__ = ("_append", "_rank")

    def __init__(self, rank: int, events: list[tuple[int, Event]]) -> None:
        self._rank, self._append = rank, events.append

    def put(
        self, code: int, time_ns: int, a: int, b: int = 0, c: int = 0, d: int = 0, flags: int = 0
    ) -> None:
        self._append((self._rank, (chr(code), time_ns, a, b, c, d, flags)))

    def write(self, event: Event) -> None:
        self._append((self._rank, event))


class SimulatedWorld:
    """Runs programs on simulated ranks, in this process; one run at a time."""

    name = "sim"

    def __init__(self) -> None:
        torch_private.require()
        self._modules: list[Modules] = []

    def run(
        self,
        program: Program,
        world_size: int,
        *,
        timeout: float,
        echo: Echo | None = None,
        limit: float | None = None,
    ) -> Outcome:
        """Run ``program`` on ``world_size`` simulated ranks; as for any world.

        WorldError when the program does what cannot be simulated.
        """
        modules = (
            [Modules() for _ in range(world_size)] if program.fresh else self._kept(world_size)
        )
        pickled = pickled_program(program)
        run = Run(program, pickled, world_size, modules, timeout, limit, echo)
        return run.go().outcome(timeout)

    def _kept(self, world_size: int) -> list[Modules]:
        self._modules += [Modules() for _ in range(world_size - len(self._modules))]
        return self._modules[:world_size]

    def close(self) -> None:
        """Forget the ranks' modules: there is nothing else."""
        self._modules.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()


_one_at_a_time = threading.Lock()
_under_way: list[Simulation] = []


@contextlib.contextmanager
def _turn(simulation: Simulation) -> Iterator[None]:
    """Wait until no other thread's run is under way; a rank may not begin one at all."""
    for other in _under_way[:]:
        if other.scheduler.owns(threading.current_thread()):
            raise other.refuse("a run of the harness inside of a rank")
    with _one_at_a_time:
        _under_way.append(simulation)
        try:
            yield
        finally:
            _under_way.remove(simulation)


class Run:
    """One run of one program."""

    def __init__(
        self,
        program: Program,
        pickled: bytes,
        world_size: int,
        modules: list[Modules],
        timeout: float,
        limit: float | None,
        echo: Echo | None,
    ) -> None:
        self._program, self._pickled, self._size = program, pickled, world_size
        self._timeout, self._limit, self._echo = timeout, limit, echo
        how = program.simulated
        self._how = replace(how, semantics="buffered") if program.buffered_sends else how
        self._interleaving = interleavings.read(how.interleaving)
        self._scheduler = Scheduler(self._interleaving, int(timeout * 1e9))
        self._simulation = Simulation(world_size, self._scheduler, self._how)
        self._modules = modules
        self._events: list[tuple[int, Event]] = []
        self._results: list[Pickled | None] = [None] * world_size
        self.outcomes = [RankOutcome(rank) for rank in range(world_size)]
        self._statuses = [Status.RUNNING] * world_size
        self._ended = [0] * world_size
        self._frames = Frames()
        self.on_watch: Callable[[], None] = _nothing

    def go(self) -> Recorded:
        """Run it; WorldError when it does what cannot be simulated."""
        with _turn(self._simulation):
            started = time.monotonic()
            collecting = gc.isenabled()
            interruptions = self._interruptions = Interruptions()
            gc.disable()  # a handle dropped by the collector would be dropped at another moment
            surroundings = Surroundings()
            try:
                installed = torch_private.Installed(self._simulation.create)
                try:
                    ending = self._inside(installed)
                finally:
                    installed.remove()
            finally:
                fibers = self._scheduler.fibers
                surroundings.restore(fiber.state.environ for fiber in fibers)
                if collecting:
                    gc.enable()
                interruptions.end()
        if self._simulation.refusal is not None:
            raise WorldError(
                f"backend sim cannot simulate {self._simulation.refusal}; use --backend gloo"
            )
        return self._recorded(ending, time.monotonic() - started)

    def _inside(self, installed: torch_private.Installed) -> Ending:
        simulation = self._simulation
        installed.replace("init_process_group", init_process_group(simulation))
        installed.replace("batch_isend_irecv", simulation.batch)
        installed.replace("TCPStore", lambda _: simulation.stores.tcp)
        installed.replace("FileStore", lambda _: simulation.stores.file)
        ours = instrument.install()
        calls, own = Calls(simulation), OwnProcess(simulation)
        self._calls = calls
        streams = sys.stdout, sys.stderr
        output = Output(self._scheduler, self._size, self._echo)
        try:
            calls.install()
            own.install()
            aside.refuse_by(simulation.refuse)
            sys.stdout, sys.stderr = (RankStream(output, stream) for stream in streams)
            ending = self._watch()
        finally:
            sys.stdout, sys.stderr = streams
            output.end()
            for outcome in self.outcomes:
                outcome.output = output.of(outcome.rank)
            own.remove()
            calls.remove()
            aside.refuse_by(None)
            if ours:
                instrument.uninstall()
        if output.failure is not None:
            raise output.failure
        return ending

    def _watch(self) -> Ending:
        scheduler = self._scheduler
        fibers = [Fiber(rank, self._state(rank)) for rank in range(self._size)]
        error: BaseException | None = None
        timed_out = False
        try:
            scheduler.start(fibers, self._body)
            with self._interruptions.allowed():
                timed_out = not self._wait_for_the_end()
        except BaseException as raised:  # by a signal's handler, or by whoever looks on
            error = raised
        if not all(fiber.over for fiber in fibers):
            self._note_stacks(fibers)
            self._events.append((0, _THE_END))
            scheduler.end_all(GRACE_S)
        scheduler.join(GRACE_S)
        if isinstance(error, KeyboardInterrupt):
            return "interrupted"
        if error is not None:
            raise error
        return self._ending(timed_out=timed_out)

    def _ending(self, *, timed_out: bool) -> Ending:
        if Status.RUNNING not in self._statuses:
            finished = all(outcome.finished for outcome in self.outcomes)
            return "finished" if finished else "failed"
        return "timeout" if timed_out or self._scheduler.ran_out else "stuck"

    def _wait_for_the_end(self) -> bool:
        """Wait until all ranks are over or stuck; False when the machine's time ran out first."""
        scheduler = self._scheduler
        began = changed = time.monotonic()
        seen = (0, 0)
        while not scheduler.wait(POLL_S):
            self.on_watch()
            now = time.monotonic()
            current = (len(self._events), scheduler.now_ns)
            if current != seen:
                seen, changed = current, now
            if now - changed >= self._timeout:
                return False
            if self._limit is not None and now - began >= self._limit:
                return False
        return True

    def _note_stacks(self, fibers: list[Fiber]) -> None:
        for fiber in fibers:
            if not fiber.over:
                self.outcomes[fiber.rank].stack = tuple(
                    Frame(*found)
                    for found in frames_of(fiber.thread)
                    if self._frames.is_user(found[0])
                )

    def _state(self, rank: int) -> RankState:
        environment = torchrun_environment(rank, self._size, PORT) | {"OMP_NUM_THREADS": "1"}
        return RankState(self._modules[rank], copy_of_environment(environment))

    def _recorder(self, rank: int) -> Recorder:
        program = self._program
        return Recorder(
            _Sink(rank, self._events),
            rank=rank,
            world=self._size,
            delay_ms=program.delay_ms,
            seed=program.seed * 1009 + rank,
            buffered=self._how.semantics == "buffered",
            clock=self._scheduler.clock,
            other_threads=_no_other_threads,
        )

    def _body(self, fiber: Fiber) -> None:
        """Run the program on one rank, from start to end."""
        rank = fiber.rank
        recorder: Recorder | None = None
        flights = self._simulation.flights[rank]
        with torch_private.on_this_thread() as stack:
            if flights is not None:
                stack.callback(flights.relax)
            try:
                program: Program = pickle.loads(self._pickled)
                recorder = self._recorder(rank)
                if program.init_group:
                    dist.init_process_group("gloo", rank=rank, world_size=self._size)
                    recorder.initialised()
                fiber.state.seed(program.seed)
                fiber.state.recorder = recorder
                recording.activate(recorder)
                result = program.entry(RankContext(rank, self._size, "cpu", "sim"))
                fiber.run_callbacks()
                self._finished(rank, _pickled(result))
            except Unwind:
                fiber.let_alone()
            except Killed as death:
                self._died(rank, death.status)
            except SystemExit as stop:
                status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
                if status == 0:
                    self._finished(rank, dumps_apart(None))
                else:
                    self._raised(rank, stop, status)
            except BaseException as error:
                self._raised(rank, error)
            if recorder is not None and fiber.doom is None:
                recorder.finish()
            fiber.state.recorder = None
            recording.activate(None)
            with contextlib.suppress(BaseException):
                if self._statuses[rank] in (Status.FINISHED, Status.RAISED):
                    self._calls.at_exit()
                if dist.is_initialized():
                    dist.destroy_process_group()

    def _finished(self, rank: int, result: Pickled) -> None:
        self._results[rank] = result
        self.outcomes[rank].finished = True
        self._ends(rank, Status.FINISHED)

    def _raised(self, rank: int, error: BaseException, status: int = 1) -> None:
        text = str(error) if type(error) is RuntimeError else ""
        if _GPU in text:
            self._simulation.refuse("messages from and to a GPU's memory (cuda tensors)")
        elif _NATIVE in text:
            self._simulation.refuse("what this torch's C++ asks of a backend, as in its DDP")
        self.outcomes[rank].exit_status = status
        self.outcomes[rank].error = describe(error, self._frames, self._scheduler.clock())
        self._ends(rank, Status.RAISED)

    def _died(self, rank: int, status: int) -> None:
        self.outcomes[rank].exit_status = status
        self.outcomes[rank].finished = status == 0
        self._ends(rank, Status.FINISHED if status == 0 else Status.DIED)

    def _ends(self, rank: int, status: Status) -> None:
        self._statuses[rank] = status
        self._ended[rank] = self._scheduler.clock()

    def _recorded(self, ending: Ending, elapsed: float) -> Recorded:
        events = self._events
        if _THE_END_OF_ALL in events:  # what ranks do while they are ended is our doing
            events = events[: events.index(_THE_END_OF_ALL)]
        return Recorded(
            events,
            [status.value for status in self._statuses],
            self._ended,
            self._results,
            self.outcomes,
            ending,
            elapsed,
            {
                "simulated": self._how,
                "choices": self._interleaving.met,
                "depends_on_interleaving": self._scheduler.polled or self._simulation.takes_any,
            },
        )


def _pickled(result: Any) -> Pickled:
    """Pickle a result; what cannot be raises without our own lines in its traceback."""
    try:
        return dumps_apart(result)
    except Exception as error:
        raise error.with_traceback(None) from None


_THE_END: Event = ("", 0)
_THE_END_OF_ALL = (0, _THE_END)


def _nothing() -> None:
    """Nobody looks on."""


def _no_other_threads() -> int:
    return 0
