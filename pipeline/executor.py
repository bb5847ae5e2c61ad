"""One training step of one rank: its row of a lowered plan in, calls on stage and comms out."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributed import Work

from pipeline.actions import CURRENT, Action, Kind
from pipeline.comms import Comms
from pipeline.lower import Policy, get_policy
from pipeline.model import Batch, chunk_sizes
from pipeline.stage import Stage, StageRunner


@dataclass
class StepProfile:
    """Where a rank's time went, in seconds, over the steps it was given to."""

    compute: float = 0.0
    waiting: float = 0.0
    """Inside sends, receives and waits."""
    peak_in_flight: int = 0


def run_step(
    row: Sequence[Action],
    policy: Policy | str,
    stage: Stage,
    comms: Comms,
    batch: Batch,
    chunks: int,
    profile: StepProfile | None = None,
) -> Tensor | None:
    """Run a rank's row, adding to the gradients of the stage's parameters.

    Returns the batch's mean loss on the last stage's rank, as a detached 0-d tensor so that the
    step itself never waits for a GPU, and None elsewhere. It is summed in the order of this
    row's backwards, microbatches weighted by size. ValueError for an action other than F, B and
    the sends and receives. Whatever was posted has completed on return.
    """
    comms.start_step()
    runner = StageRunner(stage, batch, chunk_sizes(batch.size, chunks))
    step = _Step(get_policy(policy), runner, comms, profile)
    try:
        for action in row:
            step.run(action)
        step.finish()
        return runner.loss
    finally:
        # An exception's traceback would hold on to these.
        step.clear()


class _Step:
    def __init__(
        self, policy: Policy, runner: StageRunner, comms: Comms, profile: StepProfile | None
    ) -> None:
        self._policy = policy
        self._runner = runner
        self._comms = comms
        self._profile = StepProfile() if profile is None else profile
        self._synchronize = profile is not None and runner.stage.device.type == "cuda"
        self._results: dict[Action, Tensor] = {}  # by the send that takes them away
        self._received: dict[Action, Tensor] = {}  # by the receive that brings them
        self._pending: dict[Action, Work] = {}
        self._handlers: dict[Kind, Callable[[Action], None]] = {
            Kind.F: self._forward,
            Kind.B: self._backward,
            Kind.SEND_F: self._send,
            Kind.SEND_B: self._send,
            Kind.RECV_F: self._receive,
            Kind.RECV_B: self._receive,
        }

    def run(self, action: Action) -> None:
        if action.kind not in self._handlers:
            kinds = " ".join(kind.value for kind in self._handlers)
            raise ValueError(f"the executor runs {kinds}: got {action}")
        with self._current(action):
            self._handlers[action.kind](action)

    def finish(self) -> None:
        for action in list(self._pending):
            self._wait(action)

    def clear(self) -> None:
        self._profile.peak_in_flight = max(
            self._profile.peak_in_flight, self._runner.peak_in_flight
        )
        self._runner.clear()
        for held in (self._results, self._received, self._pending):
            held.clear()

    def _forward(self, action: Action) -> None:
        x = None
        if not self._runner.stage.is_first:
            x = self._take(Action(action.stage, Kind.RECV_F, action.microbatch))
        with self._timed("compute"):
            y = self._runner.forward(action.microbatch, x)
        if not self._runner.stage.is_last:
            self._results[Action(action.stage, Kind.SEND_F, action.microbatch)] = y

    def _backward(self, action: Action) -> None:
        gradient = None
        if not self._runner.stage.is_last:
            gradient = self._take(Action(action.stage, Kind.RECV_B, action.microbatch))
            # The gradient is there, so the activation has arrived and this returns at once.
            # Were it left to the end, every sent activation would live as long.
            self._wait(Action(action.stage, Kind.SEND_F, action.microbatch))
        with self._timed("compute"):
            x_gradient = self._runner.backward(action.microbatch, gradient)
        if x_gradient is not None:
            self._results[Action(action.stage, Kind.SEND_B, action.microbatch)] = x_gradient

    def _send(self, action: Action) -> None:
        forward = action.kind is Kind.SEND_F
        tensor = self._results.pop(action, None)
        if tensor is None:
            raise ValueError(f"{action} comes before what makes its data, or a second time")
        with self._timed("waiting"):
            if action.kind in self._policy.asynchronous:
                post = self._comms.isend_forward if forward else self._comms.isend_backward
                self._pending[action] = post(tensor)
            else:
                send = self._comms.send_forward if forward else self._comms.send_backward
                send(tensor)

    def _receive(self, action: Action) -> None:
        comms, forward = self._comms, action.kind is Kind.RECV_F
        shape_of = self._runner.input_shape if forward else self._runner.output_shape
        shape = shape_of(action.microbatch)
        with self._timed("waiting"):
            if action.kind in self._policy.asynchronous:
                post = comms.ireceive_forward if forward else comms.ireceive_backward
                self._received[action], self._pending[action] = post(shape)
            else:
                receive = comms.receive_forward if forward else comms.receive_backward
                self._received[action] = receive(shape)

    def _take(self, receive: Action) -> Tensor:
        self._wait(receive)
        if receive not in self._received:
            raise ValueError(f"{receive} is missing before {CURRENT.get()}: lower the plan first")
        return self._received.pop(receive)

    def _wait(self, action: Action) -> None:
        if work := self._pending.pop(action, None):
            with self._current(action), self._timed("waiting"):
                work.wait()

    @contextmanager
    def _current(self, action: Action) -> Iterator[None]:
        token = CURRENT.set(action)
        try:
            yield
        except Exception as error:
            if not getattr(error, "__notes__", None):
                error.add_note(f"in {action}")
            raise
        finally:
            CURRENT.reset(token)

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
            if self._synchronize:
                torch.cuda.synchronize(self._runner.stage.device)
        finally:
            spent = time.perf_counter() - start
            setattr(self._profile, what, getattr(self._profile, what) + spent)
