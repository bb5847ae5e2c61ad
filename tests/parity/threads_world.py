"""A world without processes: ranks are threads, messages go through queues, sends never block."""

from __future__ import annotations

import queue
import sys
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor

from harness.case import Case
from harness.frames import Frames
from harness.parity.program import Step, as_step, on_one_stage, run_steps
from harness.parity.results import StepResult
from harness.parity.shape import workload_of
from harness.targets import Target
from harness.trace import UNKNOWN_SITE, Compute, RankError, Site, Trace
from harness.worlds import Outcome, RankOutcome
from pipeline.actions import Action, Kind
from pipeline.comms import Comms, CommsArgumentError
from pipeline.placement import Placement
from pipeline.stage import build_batch, build_stage

STEP = Target("step.py:step", "step")
DEADLINE = 20.0
RANDOM = threading.Lock()


class Done:
    """A finished ``Work``."""

    def wait(self) -> bool:
        return True


class Receive:
    """A ``Work`` whose wait takes messages until its own has come: they come in order."""

    def __init__(self, buffer: Tensor, posted: deque[Receive], pipe: queue.Queue[Tensor]) -> None:
        self.buffer, self._posted, self._pipe, self.done = buffer, posted, pipe, False
        posted.append(self)

    def wait(self) -> bool:
        while not self.done:
            first = self._posted.popleft()
            first.buffer.copy_(self._pipe.get(timeout=DEADLINE))
            first.done = True
        return True


@dataclass
class Queues:
    """One queue for each direction of each pair of neighbours."""

    world: int
    pipes: dict[tuple[int, int], queue.Queue[Tensor]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for rank in range(self.world - 1):
            self.pipes[rank, rank + 1] = queue.Queue()
            self.pipes[rank + 1, rank] = queue.Queue()


class LocalComms:
    """The eight primitives of :class:`pipeline.comms.Comms` between threads."""

    def __init__(self, rank: int, queues: Queues, dtype: torch.dtype) -> None:
        self.rank, self.world_size, self._queues = rank, queues.world, queues
        self.previous_rank = rank - 1 if rank else None
        self.next_rank = rank + 1 if rank < queues.world - 1 else None
        self.placement, self.mirror = Placement.one_each(queues.world), None
        self.device = torch.device("cpu")
        self._dtype = dtype
        self._posted: dict[int | None, deque[Receive]] = {rank - 1: deque(), rank + 1: deque()}

    def start_step(self) -> None:
        pass

    def _send(self, tensor: Tensor | None, to: int | None) -> None:
        if tensor is None:
            raise CommsArgumentError(f"{self.rank}SEND_B0 got None: the activation has no gradient")
        assert to is not None
        self._queues.pipes[self.rank, to].put(tensor.detach().clone())

    def _receive(self, source: int | None, shape: Sequence[int]) -> tuple[Tensor, Receive]:
        assert source is not None
        buffer = torch.zeros(*shape, dtype=self._dtype)
        pipe = self._queues.pipes[source, self.rank]
        return buffer, Receive(buffer, self._posted[source], pipe)

    def send_forward(self, tensor: Tensor) -> None:
        self._send(tensor, self.next_rank)

    def send_backward(self, tensor: Tensor | None) -> None:
        self._send(tensor, self.previous_rank)

    def receive_forward(self, shape: Sequence[int]) -> Tensor:
        buffer, work = self.ireceive_forward(shape)
        work.wait()
        return buffer

    def receive_backward(self, shape: Sequence[int]) -> Tensor:
        buffer, work = self.ireceive_backward(shape)
        work.wait()
        return buffer

    def isend_forward(self, tensor: Tensor) -> Done:
        self.send_forward(tensor)
        return Done()

    def isend_backward(self, tensor: Tensor | None) -> Done:
        self.send_backward(tensor)
        return Done()

    def ireceive_forward(self, shape: Sequence[int]) -> tuple[Tensor, Receive]:
        return self._receive(self.previous_rank, shape)

    def ireceive_backward(self, shape: Sequence[int]) -> tuple[Tensor, Receive]:
        return self._receive(self.next_rank, shape)

    def exchange(
        self, messages: Sequence[tuple[Action, Tensor | Sequence[int] | None]]
    ) -> dict[Action, Tensor]:
        received: dict[Action, tuple[Tensor, Receive]] = {}
        for action, what in messages:
            onward = action.kind in (Kind.SEND_F, Kind.RECV_B)
            peer = self.next_rank if onward else self.previous_rank
            if action.kind.is_send:
                assert what is None or isinstance(what, Tensor)
                self._send(what, peer)
            else:
                assert what is not None
                received[action] = self._receive(peer, cast(Sequence[int], what))
        for _, work in received.values():
            work.wait()
        return {action: buffer for action, (buffer, _) in received.items()}


class ListReporter:
    """Keeps compute events with the test's own lines."""

    def __init__(self, rank: int) -> None:
        self.rank, self.frames = rank, Frames()
        self.computes: list[Compute] = []

    def now(self) -> int:
        return 0

    def compute(
        self,
        stage: int,
        kind: str,
        microbatch: int,
        start_ns: int,
        end_ns: int,
        requires_grad: bool = True,
    ) -> None:
        frame = self.frames.caller(sys._getframe(1))[1]
        site = UNKNOWN_SITE
        if frame is not None:
            site = Site(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        self.computes.append(
            Compute(self.rank, stage, kind, microbatch, start_ns, end_ns, site, requires_grad)
        )


def run(case: Case, step: Step | str) -> Outcome:
    """Run a case's steps of a step function, or of a built-in schedule by its name."""
    torch.set_num_threads(1)
    queues = Queues(case.world)
    trace = Trace(case.world)
    ranks = [RankOutcome(rank) for rank in range(case.world)]
    threads = [
        threading.Thread(target=_rank, args=(case, step, rank, queues, trace, ranks), daemon=True)
        for rank in range(case.world)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * DEADLINE)
        assert not thread.is_alive(), "a rank of the test hangs"
    failed = any(rank.error for rank in ranks)
    return Outcome(trace, ranks, "failed" if failed else "finished", 0.0)


def _rank(
    case: Case,
    step: Step | str,
    rank: int,
    queues: Queues,
    trace: Trace,
    ranks: list[RankOutcome],
) -> None:
    workload = workload_of(case)
    reporter = ListReporter(rank)
    trace.ranks[rank].computes = reporter.computes
    comms = cast("Comms", LocalComms(rank, queues, workload.dtype))
    try:
        if isinstance(step, str):
            step, _ = as_step(Target(step, "schedule"), lambda: None, case)
        else:
            step = on_one_stage(step)
        with RANDOM:  # threads share torch's random state
            stage = build_stage(workload, rank, case.world)
            batch = build_batch(workload, stage)
        ranks[rank].result = run_steps(step, [stage], batch, workload, comms, case, reporter)
        ranks[rank].finished = True
    except Exception as error:
        at = RankError(type(error).__name__, str(error), (), 0)
        ranks[rank].error = at


def results(outcome: Outcome) -> list[StepResult]:
    """Return every rank's result."""
    found: list[Any] = [rank.result for rank in outcome.ranks]
    return cast("list[StepResult]", found)
